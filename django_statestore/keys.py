"""The rule for keys and namespaces, and for the digest that identifies an entry.

A key is any non-empty text that UTF-8 can carry, up to 1,024 bytes; a namespace is a tuple of such names. Nothing is
normalised, folded or trimmed: "Key", "key", "key " and "kéy" are four keys everywhere. What identifies an entry is a
SHA-256 digest of (facet, namespace, key), each part with its length before it, so that no two of them can ever meet.
The readable forms stand beside it for people, for listing and for search.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .exceptions import InvalidKey, InvalidKeyType

MAX_BYTES = 1024
"""The most bytes of UTF-8 in a key, and in a whole namespace path as it is stored."""

Namespace: TypeAlias = tuple[str, ...]


def check_text(value: object, what: str) -> bytes:
    """Return the UTF-8 bytes of a key or name, or refuse it: not ``str``, empty, too long, NUL, lone surrogate."""
    if not isinstance(value, str):
        raise InvalidKeyType(f"{what} is a {type(value).__name__}, not a str")
    if not value:
        raise InvalidKey(f"{what} is empty")
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        raise InvalidKey(f"{what} holds a lone surrogate, which UTF-8 cannot carry") from None
    if len(encoded) > MAX_BYTES:
        raise InvalidKey(f"{what} is {len(encoded)} bytes long; the limit is {MAX_BYTES}: use a digest of it")
    if b"\0" in encoded:
        raise InvalidKey(f"{what} holds a NUL character")
    return encoded


def encode_namespace(names: Namespace) -> str:
    """Return the readable path of a namespace: its names joined by ``/``, with ``/`` and ``\\`` in them escaped.

    The root, ``()``, is the empty path. Two different namespaces never have the same path.
    """
    for name in names:
        check_text(name, "a name of the namespace")
    path = "/".join(name.replace("\\", "\\\\").replace("/", "\\/") for name in names)
    size = len(path.encode())
    if size > MAX_BYTES:
        raise InvalidKey(f"the namespace is {size} bytes long in all; the limit is {MAX_BYTES}")
    return path


def decode_namespace(path: str) -> Namespace:
    """Return the names that ``encode_namespace`` made a path of."""
    if not path:
        return ()
    names, name, characters = [], "", iter(path)
    for character in characters:
        if character == "\\":
            name += next(characters)
        elif character == "/":
            names.append(name)
            name = ""
        else:
            name += character
    return (*names, name)


def prefix_end(prefix: str) -> str | None:
    """Return the least text above every text that begins with ``prefix``, in code point order; None: there is none."""
    for index in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[index]) + 1
        if point == 0xD800:
            point = 0xE000
        if point <= 0x10FFFF:
            return prefix[:index] + chr(point)
    return None


@dataclass(frozen=True, slots=True)
class Entry:
    """Name one entry of one facet: readable, and by the digest that is its identity."""

    namespace: str
    key: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Scope:
    """Name a facet within a namespace; it makes the entries."""

    facet: str
    names: Namespace
    namespace: str = field(init=False)
    _prefix: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "namespace", encode_namespace(self.names))
        prefix = hashlib.sha256()
        for part in (self.facet.encode(), str(len(self.names)).encode(), *(name.encode() for name in self.names)):
            prefix.update(len(part).to_bytes(4) + part)
        object.__setattr__(self, "_prefix", prefix)

    def entry(self, key: str, what: str = "the key") -> Entry:
        """Return the entry of ``key``, or refuse the key."""
        encoded = check_text(key, what)
        digest = self._prefix.copy()
        digest.update(len(encoded).to_bytes(4) + encoded)
        return Entry(self.namespace, key, digest.digest())
