"""Where two plain values differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .. import codec
from .._paths import Step, path_of


class _Absent:
    """Be what stands at a path that only the other value has."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""What stands at a path that only the other value has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Name one place, such as ``$.items[3].price``, and what stands there in each of two values, or ``ABSENT``."""

    path: str
    before: Any
    after: Any


def compare(before: Any, after: Any) -> list[Difference]:
    """Return the differences of two plain values: of dicts by key, of lists and tuples by index, else as a whole.

    Two values are the same if the codec writes the same text for them: 1 differs from 1.0, NaN does not from NaN.
    """
    return list(_walk(before, after, ()))


def _walk(before: Any, after: Any, path: tuple[Step, ...]) -> Iterator[Difference]:
    if type(before) is not type(after) or type(before) not in (dict, list, tuple):
        if before is ABSENT or after is ABSENT or codec.dumps(before) != codec.dumps(after):
            yield Difference(path_of(path), before, after)
    elif isinstance(before, dict):
        for key in before | after:
            yield from _walk(before.get(key, ABSENT), after.get(key, ABSENT), (*path, key))
    else:
        for index in range(max(len(before), len(after))):
            old = before[index] if index < len(before) else ABSENT
            new = after[index] if index < len(after) else ABSENT
            yield from _walk(old, new, (*path, index))
