"""Know the types that JSON has no word for: how each is written into a tag and read back, and what is refused.

The table is fixed. Reading calls nothing but the constructors named here.
"""

from __future__ import annotations

import binascii
import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from django.utils.functional import LazyObject, Promise

from ._paths import Step

INT_LIMIT = 2**53
"""Readers in other languages keep integers exact up to here; beyond it an int travels in hex."""

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Two surrogates that are two characters of one str: JSON cannot tell them from the one character they spell."""

_BETWEEN = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")
_MICROSECOND = timedelta(microseconds=1)


class Unkept(Exception):
    """A value of a known type holds something that would be lost."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        self.steps: list[Step] = []  # the path, innermost first: whoever lets it pass adds his own
        super().__init__(problem, remedy)


class UnknownZone(Exception):
    """A tag names a time zone that this machine does not have."""


class Leaf(NamedTuple):
    """Write a value that holds no other values into a tag's content, and read it back."""

    tag: str
    kind: type
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _zone(zone: tzinfo | None) -> str | list[Any] | None:
    if zone is None:
        return None
    kind = type(zone)
    if kind is timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        return [offset // _MICROSECOND, *(part for text in name for part in _BETWEEN.split(text))]
    if kind is not ZoneInfo:
        raise Unkept(
            f"its time zone is a {kind.__qualname__}",
            "use zoneinfo.ZoneInfo or datetime.timezone, or value.astimezone(datetime.UTC)",
        )
    key = zone.key  # type: ignore[attr-defined]
    try:
        if ZoneInfo(key) is not zone:
            zone.__reduce__()  # refused by a zone that was read from a file of the caller's
    except Exception:
        raise Unkept(
            "its ZoneInfo cannot be found again by a key", "use ZoneInfo(key), or value.astimezone(datetime.UTC)"
        ) from None
    return str(key)


def _read_zone(content: Any) -> tzinfo | None:
    if content is None:
        return None
    if type(content) is str:
        try:
            return ZoneInfo(content)
        except Exception as error:
            raise UnknownZone from error
    microseconds, *name = content
    offset = timedelta(microseconds=microseconds)
    return timezone(offset, "".join(name)) if name else timezone(offset)


def _write_moment(value: datetime | time) -> str | list[Any]:
    zone = value.tzinfo
    if value.fold == 0:
        if zone is None:
            return value.isoformat()
        if type(zone) is timezone:
            offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
            if not name and not offset.microseconds:  # fromisoformat drops an offset below one second
                return value.isoformat()
    return [value.replace(tzinfo=None).isoformat(), value.fold, _zone(zone)]


def _read_moment(kind: type[datetime | time], content: Any) -> datetime | time:
    if type(content) is str:
        return kind.fromisoformat(content)
    text, fold, zone = content
    return kind.fromisoformat(text).replace(fold=fold, tzinfo=_read_zone(zone))


def _read_bytes(content: str) -> bytes:
    return binascii.a2b_base64(content, strict_mode=True)


LEAVES = (
    Leaf("datetime", datetime, _write_moment, lambda content: _read_moment(datetime, content)),
    Leaf("date", date, date.isoformat, date.fromisoformat),
    Leaf("time", time, _write_moment, lambda content: _read_moment(time, content)),
    Leaf("timedelta", timedelta, lambda v: [v.days, v.seconds, v.microseconds], lambda content: timedelta(*content)),
    Leaf("decimal", Decimal, str, Decimal),
    Leaf("uuid", UUID, str, UUID),
    Leaf("bytes", bytes, lambda v: binascii.b2a_base64(v, newline=False).decode(), _read_bytes),
    # Hex has no limit on digits, and costs no more than its length.
    Leaf("int", int, hex, lambda content: int(content, 16)),
    Leaf("float", float, repr, float),
    Leaf("str", str, _BETWEEN.split, "".join),
)

_REBUILT = {
    datetime: "datetime.combine(value.date(), value.timetz())",
    date: "date(value.year, value.month, value.day)",
    time: "time.fromisoformat(value.isoformat())",
    timedelta: "timedelta(value.days, value.seconds, value.microseconds)",
    UUID: "UUID(int=value.int)",
    bytes: "bytes(value)",
    str: "str(value)",
}
_BASES = (datetime, date, time, timedelta, Decimal, UUID, bytes, str, int, float, dict, list, tuple, set, frozenset)


def refusal(value: object) -> tuple[str, str]:
    """Say why a value of an unknown type is refused and what to do instead; never looks into the value."""
    kind = type(value)
    name = kind.__qualname__
    if issubclass(kind, Enum):
        return f"{name} is an enum, and its member would come back as its bare value", "pass its .value"
    if issubclass(kind, Promise):
        return "a lazy text depends on the language in force", "pass str(value)"
    if issubclass(kind, LazyObject):
        return f"a {name} stands for another object", "pass that object's data, such as its .pk"
    if hasattr(kind, "_meta") and hasattr(kind, "pk"):
        return f"{name} is a model, and its row may change meanwhile", "pass its .pk"
    if dataclasses.is_dataclass(kind):
        return f"{name} is a dataclass", "pass dataclasses.asdict(value), or declare it as a durable task's state"
    if issubclass(kind, bytearray | memoryview):
        return f"a {name} would come back as bytes", "pass bytes(value)"
    if issubclass(kind, complex):
        return "a complex number has no form in JSON", "pass [value.real, value.imag]"
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return f"{name} is a named tuple and would lose its type", "pass tuple(value) or value._asdict()"
    for base in _BASES:
        if issubclass(kind, base):
            remedy = _REBUILT.get(base, f"{base.__name__}(value)")
            if base is str and kind.__str__ is not str.__str__:  # SafeString answers str() with itself
                remedy = "str.__str__(value)"
            return f"a {name} would lose its type and come back as {base.__name__}", f"pass {remedy}"
    if hasattr(kind, "tolist"):
        return f"a {name} is not a value that can be kept", "pass value.tolist()"
    if issubclass(kind, Mapping):
        return f"a {name} is not a value that can be kept", "pass dict(value)"
    if hasattr(kind, "__iter__"):
        return f"a {name} is not a value that can be kept", "pass list(value)"
    return f"a {name} is not a value that can be kept", "pass the plain values it is made of"
