"""What is tried on every facet: keys, durations and values, good and bad."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

UNLIKE_KEYS = ["Key", "key", "key ", " key", "k\u00e9y", "ke\u0301y", "KEY", "key\n", "1", "%", "k_y", "\U0001f600"]
"""Keys that are taken for one another where text is folded, trimmed, normalised or matched as a pattern."""

ODD_KEYS = [" ", "a\nb", "\t", "\x7f", "\u2028", "'; --", "%(id)s", ":id", "?", "{a}b", "a}b{", "{}", "*", "k" * 1024]
"""Keys that something on the way might not bear."""

BAD_KEYS: list[Any] = ["", "a\0", "\ud800", "k" * 1025, "\u00e9" * 513, b"k", 1, True, None]

BAD_TTLS: list[Any] = [0, -1, -5.0, 10**16, float("inf"), float("nan"), True, timedelta(0), timedelta(days=4000), "60"]

EMPTY_VALUES: list[Any] = [None, 0, 0.0, False, "", [], {}, (), b""]
"""Values that a test of their truth takes for nothing."""

NAMES: list[tuple[str, ...]] = [
    (), ("a_b",), ("aXb",), ("a%b",), ("foo",), ("foobar",), ("fo",), ("x[1]",), ("x1",), ("*",), ("?",), ("%",),
    ("_",), ("a", "b"), ("a/b",), ("a",), ("a\\", "b"), ("a\\/b",), ("A",), ("a ",), ("{a}",),
    ("foo", "foobar"), ("'",),
]  # fmt: skip
"""Names that are patterns in LIKE, in GLOB, in Redis or in a path, and that begin with one another."""

VALUES: dict[str, Any] = {
    "object": {"n": 2**64 + 1, "b": 1, "a": [1.5, "x", None, True]},
    "text": {"nul": "\0", "half": "\ud800", "pair": "\U0001f600", "quote": "'\"%s%(x)s:x?\\"},
    "like a tag": [{"$": ["tuple", [1]]}, {"$tuple": [1]}, {"__type__": "set"}, {"~": 1}, ["~", 1]],
    "whole numbers": [2**53, -(2**53) - 1, 2**200, -(2**63), 0, -0],
    "fractions": [0.1, -0.0, 1e308, 5e-324, 1.0, 10.0],
    "infinities": [float("inf"), float("-inf")],
    "decimals": [Decimal("1.10"), Decimal("-0"), Decimal("1E+9"), Decimal("Infinity")],
    "collections": (1, {2, 3}, frozenset(), [(), set()], {"nested": ((1,), [2])}),
    "instants": [
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001
        date(2026, 1, 2), time(3, 4, 5, 6), timedelta(days=-1, microseconds=1),
    ],
    "others": [UUID(int=7), b"\x00\xff", bytes(range(256))],
    "large": "x" * 300_000,
}  # fmt: skip


class Colour(enum.Enum):
    """Be a class of values that no store can give back."""

    RED = "red"


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


BAD_VALUES: dict[str, tuple[Any, str]] = {
    "an object": ({"items": [1, object()]}, r"^\$\.items\[1\]"),
    "a key that is no text": ({"a": {1: 2}}, r"^\$\.a"),
    "a member of an enumeration": ([Colour.RED], r"^\$\[0\]"),
    "a subclass of str": ({"name": type("Name", (str,), {})("x")}, r"^\$\.name"),
    "too deep": (_nested(200), r"^\$\[0\]"),
}
"""Values that would not come back equal and of the same type, and where the refusal says that they are."""


def alike(a: Any, b: Any) -> bool:
    """Tell whether two values are equal and of exactly the same types, all the way down; NaN is itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, set | frozenset):
        return a == b and {(type(each), each) for each in a} == {(type(each), each) for each in b}
    if isinstance(a, datetime | time):
        return a.replace(tzinfo=None) == b.replace(tzinfo=None) and (a.fold, repr(a.tzinfo)) == (b.fold, repr(b.tzinfo))
    return repr(a) == repr(b)
