"""Turn values into ASCII JSON text and back: equal and of the same type, or refused.

JSON values are plain JSON. What JSON has no word for travels in one form, ``{"$t": tag, "v": content}``; a dict that
has the key ``$t`` itself goes as ``{"$t": "dict", "v": [key, value, key, value, ...]}``, so nothing is mistaken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from json import JSONDecodeError, JSONDecoder, JSONEncoder
from math import isfinite
from typing import Any

from ._paths import Step, path_of
from ._tags import INT_LIMIT, LEAVES, PAIR, Leaf, Unkept, UnknownZone, refusal
from .exceptions import PayloadInvalid, ValueNotSerializable

MAX_DEPTH = 100
"""How many containers may stand in one another."""

# Cycles do not get past the depth check; NaN and the infinities are for the tags.
_encode = JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":")).encode

_SIMPLE = frozenset({float, bool, type(None)})
_WRITERS = {leaf.kind: leaf for leaf in LEAVES}
# A character beyond U+FFFF is escaped as two surrogates, just as two surrogates are.
_ESCAPED_PAIR = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f]")

_Trail = tuple[Any, Step] | None  # the trail of the container, and the step from there: rendered only in an error


def dumps(value: object) -> str:
    """Encode ``value`` as ASCII JSON text.

    Keys keep their order, the elements of a set are sorted. Raises ``ValueNotSerializable``, with the path of the
    culprit and the remedy, if something would not come back equal and of the same type.
    """
    if _is_plain(value):
        try:
            text = _encode(value)
        except ValueError:  # not a finite number
            return _encode(_tagged(value))
        if "\\" not in text or not _ESCAPED_PAIR.search(text) or not _has_pair(value):
            return text
    return _encode(_tagged(value))


def loads(text: str) -> Any:
    """Decode what ``dumps`` wrote; nothing is imported, called or unpickled on its behalf.

    Raises ``PayloadInvalid`` on any other text: not JSON, ``NaN`` as a word, a key twice in one object, an unknown tag,
    a known tag with other content.
    """
    try:
        return _decode(text)
    except _Malformed as error:
        problem = f"the stored value cannot be read at {_locate(text)}: {error}"
    except JSONDecodeError as error:
        problem = f"the stored text is not JSON, as seen at character {error.pos}"
    except (ValueError, RecursionError):
        problem = "the stored text has a number or a nesting beyond what can be read"
    raise PayloadInvalid(problem)  # out here, or the cause would carry the text along


# -- writing ----------------------------------------------------------------------------------------------------------


def _is_plain(value: object) -> bool:
    """Tell whether JSON alone keeps the value, not looking for NaN and surrogates.

    Every write takes this walk, hence its form: children are tested in their container, only containers are stacked.
    Depth first, so that it leaves a cycle at once.
    """
    todo: list[tuple[Any, int]] = [([value], 0)]
    pop, push = todo.pop, todo.append
    while todo:
        node, depth = pop()
        if depth > MAX_DEPTH:
            return False
        depth += 1
        if type(node) is dict:
            if "$t" in node:
                return False
            for key in node:
                if type(key) is not str:
                    return False
            node = node.values()
        for child in node:
            kind = type(child)
            if kind is str:
                continue
            if kind is int:
                if not -INT_LIMIT <= child <= INT_LIMIT:
                    return False
            elif kind is dict or kind is list:
                push((child, depth))
            elif kind not in _SIMPLE:
                return False
    return True


def _has_pair(value: object) -> bool:
    """Tell whether a plain value has a str with a pair of surrogates, not just with the characters that such spell."""
    todo: list[Any] = [[value]]
    for node in todo:
        texts = node
        if type(node) is dict:
            if not "".join(node).isascii() and any(map(PAIR.search, node)):
                return True
            texts = node.values()
        for child in texts:
            kind = type(child)
            if kind is str:
                if not child.isascii() and PAIR.search(child):
                    return True
            elif kind is dict or kind is list:
                todo.append(child)
    return False


def _tagged(value: object) -> Any:
    """Copy the value with tags in it, or raise with the path of the first thing that cannot be kept."""
    try:
        return _copy(value, 1)
    except Unkept as error:
        path = path_of(reversed(error.steps))
        refused = ValueNotSerializable(path, error.problem, error.remedy)
    raise refused


def _copy(value: Any, depth: int) -> Any:
    """Copy one value; it recurses no deeper than the encoder will, which is ``MAX_DEPTH``."""
    kind: type = type(value)
    if kind is bool or value is None:
        return value
    if kind in _WRITERS:
        return _copy_leaf(value, kind)
    if kind not in _CONTAINERS:
        raise Unkept(*refusal(value))
    if depth > MAX_DEPTH:
        problem = f"nests more than {MAX_DEPTH} deep, or contains itself"
        raise Unkept(problem, "flatten it, or store its parts one by one")
    return _CONTAINERS[kind](value, depth + 1)


def _copy_leaf(value: Any, kind: type) -> Any:
    if kind is int:
        if -INT_LIMIT <= value <= INT_LIMIT:
            return value
    elif kind is float:
        if isfinite(value):
            return value
    elif kind is str and not PAIR.search(value):
        return value
    leaf = _WRITERS[kind]
    return {"$t": leaf.tag, "v": leaf.write(value)}


def _copy_list(values: Iterable[Any], depth: int) -> list[Any]:
    copy: list[Any] = []
    try:
        for child in values:
            kind = type(child)
            if kind is str and child.isascii():
                copy.append(child)
            else:
                copy.append(_copy(child, depth))
    except Unkept as error:
        error.steps.append(len(copy))
        raise
    return copy


def _copy_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    ascii_keys = True
    for key, child in value.items():
        if type(key) is not str:
            problem = f"a key of this dict is of type {type(key).__qualname__}, which would come back as str"
            raise Unkept(problem, "use keys of type str, or a list of pairs")
        ascii_keys = ascii_keys and key.isascii()
        kind = type(child)
        if kind is str and child.isascii():
            copy[key] = child
            continue
        try:
            copy[key] = _copy(child, depth)
        except Unkept as error:
            error.steps.append(key)
            raise
    if "$t" in copy or (not ascii_keys and any(map(PAIR.search, copy))):
        flat = [part for key, child in copy.items() for part in (_copy_leaf(key, str), child)]
        return {"$t": "dict", "v": flat}
    return copy


def _copy_set(values: Iterable[Any], depth: int) -> list[Any]:
    copy: list[Any] = []
    for child in values:
        try:
            copy.append(_copy(child, depth))
        except Unkept as error:
            error.steps.append(None)
            raise
    copy.sort(key=_encode)
    return copy


_CONTAINERS: dict[type, Callable[[Any, int], Any]] = {
    dict: _copy_dict,
    list: _copy_list,
    tuple: lambda value, depth: {"$t": "tuple", "v": _copy_list(value, depth)},
    set: lambda value, depth: {"$t": "set", "v": _copy_set(value, depth)},
    frozenset: lambda value, depth: {"$t": "frozenset", "v": _copy_set(value, depth)},
}


# -- reading ----------------------------------------------------------------------------------------------------------


class _Malformed(Exception):
    """Stored text holds what this module does not write."""


def _no_constant(word: str) -> None:
    raise _Malformed(f"{word} is not JSON")


def _members(pairs: list[tuple[str, Any]]) -> Any:
    """Make a dict of an object's members, or the value that its tag stands for."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Malformed("an object has the same key twice")
    return _untagged(members) if "$t" in members else members


_decode = JSONDecoder(object_pairs_hook=_members, parse_constant=_no_constant).decode


def _untagged(members: dict[str, Any]) -> Any:
    tag = members["$t"]
    if type(tag) is not str or tag not in _READERS:
        raise _Malformed(f"the tag {tag[:40]!a} is unknown" if type(tag) is str else "a tag is not a text")
    if len(members) != 2:
        raise _Malformed(f"the tag {tag!r} has no content, or more than that")
    try:
        return _READERS[tag](members["v"])
    except UnknownZone:
        problem = f"the tag {tag!r} names a time zone that this machine does not know; is its tzdata complete?"
    except Exception:
        problem = f"the tag {tag!r} has a content that is never written"
    raise _Malformed(problem)  # out here, or the cause would carry the content along


def _list(content: Any) -> list[Any]:
    if type(content) is not list:
        raise TypeError
    return content


def _dict(content: Any) -> dict[str, Any]:
    keys = _list(content)[::2]
    members = dict(zip(keys, content[1::2], strict=True))
    if len(members) != len(keys) or any(type(key) is not str for key in keys):
        raise ValueError
    return members


def _exactly(leaf: Leaf, content: Any) -> Any:
    """Read a leaf whose constructor takes more forms than the one that is written."""
    value = leaf.read(content)
    if leaf.write(value) != content:
        raise ValueError
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "dict": _dict,
    "tuple": lambda content: tuple(_list(content)),
    "set": lambda content: set(_list(content)),
    "frozenset": lambda content: frozenset(_list(content)),
    **{leaf.tag: partial(_exactly, leaf) for leaf in LEAVES},
}


class _Culprit:
    """Stand where something could not be read."""


def _locate(text: str) -> str:
    """Return the path of the first thing that cannot be read: parse again, this time leaving marks."""

    def members(pairs: list[tuple[str, Any]]) -> Any:
        try:
            return _members(pairs)
        except _Malformed:
            return _Culprit()

    try:
        top = JSONDecoder(object_pairs_hook=members, parse_constant=lambda word: _Culprit()).decode(text)
    except (ValueError, RecursionError):  # nor is it JSON further on
        return "$"
    todo: list[tuple[Any, _Trail]] = [(top, None)]
    while todo:
        node, trail = todo.pop()
        kind = type(node)
        if kind is _Culprit:
            steps: list[Step] = []
            while trail:
                trail, step = trail
                steps.append(step)
            return path_of(reversed(steps))
        if kind is dict:
            todo += [(child, (trail, key)) for key, child in reversed(node.items())]
        elif kind is list or kind is tuple:
            todo += [(node[i], (trail, i)) for i in reversed(range(len(node)))]
        elif kind is set or kind is frozenset:
            todo += [(child, (trail, None)) for child in node]
    return "$"
