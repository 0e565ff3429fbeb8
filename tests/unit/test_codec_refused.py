"""What the codec refuses to write, and stored text that it cannot read."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import io
import json
import struct
import types
import zoneinfo
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.contrib.contenttypes.models import ContentType
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given, settings
from hypothesis import strategies as st

from django_statestore.codec import _READERS, dumps, loads
from django_statestore.exceptions import PayloadInvalid, ValueNotSerializable

from .values import PAIR, values

# -- what is refused --------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


class Point(NamedTuple):
    x: int


@dataclasses.dataclass
class Order:
    id: int


class MyStr(str):
    __slots__ = ()


class MyZone(tzinfo):
    def utcoffset(self, when: datetime | None, /) -> timedelta:
        return timedelta(0)

    dst = utcoffset

    def tzname(self, when: datetime | None, /) -> str:
        return "mine"


class MyZoneInfo(zoneinfo.ZoneInfo):
    pass


def sub(base: type, *args: object) -> Any:
    return type(f"My{base.__name__.title()}", (base,), {})(*args)


def zone_from_file(key: str | None) -> zoneinfo.ZoneInfo:
    """Make a zone of a file of our own: an hour east of UTC, for ever."""
    header = struct.pack(">4s16x6l", b"TZif", 0, 0, 0, 0, 1, 4)
    return zoneinfo.ZoneInfo.from_file(io.BytesIO(header + struct.pack(">lBB4s", 3600, 0, 0, b"OUR")), key=key)


def numbers() -> Iterator[int]:
    yield 1


REFUSED: list[tuple[object, str, str]] = [
    (Colour.RED, "Colour is an enum", ".value"),
    (Level.LOW, "Level is an enum", ".value"),
    (Word.A, "Word is an enum", ".value"),
    (ContentType(pk=7), "ContentType is a model", ".pk"),
    (SimpleLazyObject(lambda: pytest.fail("looked into it")), "stands for another object", ".pk"),
    (gettext_lazy("Yes"), "lazy text", "str(value)"),
    (mark_safe("<b>"), "SafeString would lose its type", "str.__str__(value)"),
    (MyStr("x"), "come back as str", "str(value)"),
    (bytearray(b"x"), "bytearray would come back as bytes", "bytes(value)"),
    (memoryview(b"x"), "memoryview would come back as bytes", "bytes(value)"),
    (Order(1), "Order is a dataclass", "dataclasses.asdict(value)"),
    (Order, "a type is not a value", "the plain values"),
    (Point(1), "Point is a named tuple", "tuple(value)"),
    (collections.OrderedDict(a=1), "come back as dict", "dict(value)"),
    (collections.Counter("a"), "come back as dict", "dict(value)"),
    (sub(int, 1), "come back as int", "int(value)"),
    (sub(float, 1), "come back as float", "float(value)"),
    (sub(list), "come back as list", "list(value)"),
    (sub(tuple), "come back as tuple", "tuple(value)"),
    (sub(set), "come back as set", "set(value)"),
    (sub(frozenset), "come back as frozenset", "frozenset(value)"),
    (sub(bytes), "come back as bytes", "bytes(value)"),
    (sub(Decimal), "come back as Decimal", "Decimal(value)"),
    (sub(datetime, 2026, 1, 1), "come back as datetime", "datetime.combine(value.date(), value.timetz())"),
    (sub(date, 2026, 1, 1), "come back as date", "date(value.year, value.month, value.day)"),
    (sub(time, 1), "come back as time", "time.fromisoformat(value.isoformat())"),
    (sub(timedelta, 1), "come back as timedelta", "timedelta(value.days, value.seconds, value.microseconds)"),
    (sub(UUID, "0" * 32), "come back as UUID", "UUID(int=value.int)"),
    (1 + 2j, "complex", "[value.real, value.imag]"),
    (numbers(), "a generator is not", "list(value)"),
    (range(3), "a range is not", "list(value)"),
    ({}.keys(), "a dict_keys is not", "list(value)"),
    (collections.deque([1]), "a deque is not", "list(value)"),
    (types.MappingProxyType({}), "a mappingproxy is not", "dict(value)"),
    (object(), "a object is not", "the plain values"),
    (len, "a builtin_function_or_method is not", "the plain values"),
    (..., "a ellipsis is not", "the plain values"),
    (datetime(2026, 1, 1, tzinfo=MyZone()), "its time zone is a MyZone", "zoneinfo.ZoneInfo"),
    (time(1, tzinfo=MyZone()), "its time zone is a MyZone", "zoneinfo.ZoneInfo"),
    (datetime(2026, 1, 1, tzinfo=MyZoneInfo("Europe/Berlin")), "its time zone is a MyZoneInfo", "astimezone"),
    ({1: 2}, "a key of this dict is of type int", "keys of type str"),
    ({MyStr("k"): 2}, "a key of this dict is of type MyStr", "keys of type str"),
    ({Word.A: 2}, "a key of this dict is of type Word", "keys of type str"),
    ({None: 2}, "a key of this dict is of type NoneType", "keys of type str"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "problem", "remedy"), REFUSED, ids=lambda part: part if type(part) is str else "")
def test_refusals_name_the_path_and_the_remedy(value: object, problem: str, remedy: str) -> None:
    for document, path in [
        (value, "$"),
        ({"items": [0, 1, 2, {"price": value, "n": 1}]}, "$.items[3].price"),
        (["x", (0, value)], "$[1][1]"),
        ({"a b": {"$t": value}}, '$["a b"]["$t"]'),
        ({PAIR: value, "at": date(2026, 1, 1)}, '$["\\ud83d\\ude00"]'),
    ]:
        with pytest.raises(ValueNotSerializable) as refused:
            dumps(document)
        assert refused.value.path == path
        assert problem in refused.value.problem
        assert remedy in refused.value.remedy
        assert str(refused.value) == f"{path}: {refused.value.problem}; {refused.value.remedy}"
        assert refused.value.__context__ is None


@pytest.mark.parametrize("key", [None, "Europe/Berlin", "No/Such"])
def test_a_zone_from_a_file_is_refused(key: str | None) -> None:
    with pytest.raises(ValueNotSerializable, match=r"\$\.at: its ZoneInfo cannot be found again by a key"):
        dumps({"at": datetime(2026, 1, 1, tzinfo=zone_from_file(key))})


def test_the_first_culprit_is_named() -> None:
    with pytest.raises(ValueNotSerializable) as refused:
        dumps({"a": [1, [object()]], "b": object()})
    assert refused.value.path == "$.a[1][0]"


def test_an_element_of_a_set_is_named_as_such() -> None:
    with pytest.raises(ValueNotSerializable) as refused:
        dumps({"tags": {("a", Colour.RED)}})
    assert refused.value.path == "$.tags{}[1]"


def test_refusals_are_type_and_value_errors_and_hold_no_value() -> None:
    for expected in (TypeError, ValueError):
        with pytest.raises(expected) as refused:
            dumps({"token": sub(bytes, b"hunter2"), "n": 1})
        assert "hunter2" not in str(refused.value)


def test_a_long_key_is_cut_in_the_path() -> None:
    with pytest.raises(ValueNotSerializable) as refused:
        dumps({"k" * 10_000: object()})
    assert len(str(refused.value)) < 300


# -- what cannot be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON, as seen at character 0"),
        ("{", "not JSON"),
        ("[1,]", "not JSON"),
        ("{'a': 1}", "not JSON"),
        ('"\n"', "not JSON"),
        ("\ufeff1", "not JSON"),
        ("NaN", "at $: NaN is not JSON"),
        ('{"a":[Infinity]}', "at $.a[0]: Infinity is not JSON"),
        ("[-Infinity]", "at $[0]: -Infinity is not JSON"),
        ('[{"a":1,"a":1}]', "at $[0]: an object has the same key twice"),
        ('{"$t":"date","$t":"date","v":1}', "at $: an object has the same key twice"),
        ("1" * 5000, "a number or a nesting beyond what can be read"),
        ("[" * 200_000, "a number or a nesting beyond what can be read"),
        ('{"a":{"$t":"pickle","v":""}}', "at $.a: the tag 'pickle' is unknown"),
        ('{"$t":"' + "x" * 500 + '","v":""}', "the tag '" + "x" * 40 + "' is unknown"),
        ('{"\\u0024t":"pickle"}', "the tag 'pickle' is unknown"),
        ('{"$t":null,"v":""}', "a tag is not a text"),
        ('{"$t":["date"],"v":""}', "a tag is not a text"),
        ('{"$t":"date"}', "at $: the tag 'date' has no content, or more"),
        ('{"$t":"date","w":"2026-01-01"}', "the tag 'date' has a content"),
        ('{"$t":"date","v":"2026-01-01","w":1}', "the tag 'date' has no content, or more"),
        ('[{"$t":"tuple","v":[0,{"$t":"date","v":"x"}]}]', "at $[0][1]: the tag 'date'"),
        ('[{"$t":"dict","v":["k",{"$t":"date","v":"x"}]}]', "at $[0].k: the tag 'date'"),
        ('{"$t":"set","v":[{"$t":"date","v":"x"}]}', "at ${}: the tag 'date'"),
        ('{"$t":"set","v":[[]]}', "the tag 'set' has a content"),
        ('{"$t":"tuple","v":"ab"}', "the tag 'tuple' has a content"),
        ('{"$t":"dict","v":{}}', "the tag 'dict' has a content"),
        ('{"$t":"dict","v":["k"]}', "the tag 'dict' has a content"),
        ('{"$t":"dict","v":["k",1,"k",1]}', "the tag 'dict' has a content"),
        ('{"$t":"dict","v":[1,1]}', "the tag 'dict' has a content"),
        ('{"$t":"dict","v":[{"$t":"tuple","v":[]},1]}', "the tag 'dict' has a content"),
        ('{"$t":"date","v":"20260101"}', "the tag 'date' has a content"),
        ('{"$t":"datetime","v":"2026-01-01"}', "the tag 'datetime' has a content"),
        ('{"$t":"datetime","v":"2026-01-01T00:00:00Z"}', "the tag 'datetime' has a content"),
        ('{"$t":"datetime","v":["2026-01-01T00:00:00",2,null]}', "the tag 'datetime' has a content"),
        ('{"$t":"datetime","v":["2026-01-01T00:00:00",0,null]}', "the tag 'datetime' has a content"),
        ('{"$t":"datetime","v":["2026-01-01T00:00:00+01:00",0,"UTC"]}', "the tag 'datetime' has a content"),
        ('{"$t":"datetime","v":["2026-01-01T00:00:00",0,[1e99]]}', "the tag 'datetime' has a content"),
        ('{"$t":"time","v":"25:00:00"}', "the tag 'time' has a content"),
        ('{"$t":"timedelta","v":[1.5,0,0]}', "the tag 'timedelta' has a content"),
        ('{"$t":"timedelta","v":[1]}', "the tag 'timedelta' has a content"),
        ('{"$t":"decimal","v":" 1"}', "the tag 'decimal' has a content"),
        ('{"$t":"decimal","v":1.5}', "the tag 'decimal' has a content"),
        ('{"$t":"uuid","v":"{00000000000000000000000000000001}"}', "the tag 'uuid' has a content"),
        ('{"$t":"bytes","v":"AP8"}', "the tag 'bytes' has a content"),
        ('{"$t":"bytes","v":"AP9="}', "the tag 'bytes' has a content"),
        ('{"$t":"int","v":"0X5"}', "the tag 'int' has a content"),
        ('{"$t":"int","v":5}', "the tag 'int' has a content"),
        ('{"$t":"float","v":"infinity"}', "the tag 'float' has a content"),
        ('{"$t":"float","v":{"$t":"float","v":"nan"}}', "the tag 'float' has a content"),
        ('{"$t":"str","v":"ab"}', "the tag 'str' has a content"),
        ('{"$t":"str","v":["a","b"]}', "the tag 'str' has a content"),
        ('{"at":{"$t":"datetime","v":["2026-01-01T00:00:00",0,"No/Such"]}}', "at $.at: the tag 'datetime' names a"),
        ('{"$t":"time","v":["00:00:00",0,"../../etc/passwd"]}', "names a time zone"),
        ('{"$t":"time","v":["00:00:00",0,"Europe"]}', "names a time zone"),
        ('{"$t":"time","v":["00:00:00",0,"\\u0000\\ud800"]}', "names a time zone"),
    ],
)  # fmt: skip
def test_unreadable_text(text: str, problem: str) -> None:
    with pytest.raises(PayloadInvalid) as refused:
        loads(text)
    assert problem in str(refused.value)
    assert refused.value.__context__ is None
    assert len(str(refused.value)) < 300


def test_an_unreadable_value_is_not_in_the_error() -> None:
    for text in ('{"$t":"uuid","v":"hunter2"}', '"hunter2', '{"a":"hunter2"}}'):
        with pytest.raises(PayloadInvalid) as refused:
            loads(text)
        assert "hunter2" not in str(refused.value)


tags = st.sampled_from([*_READERS, "eval", ""])
tag_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["2026-01-01", "2026-01-01T00:00:00", "0x10", "nan", "1e5", "Europe/Berlin", "AAAA"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["$t", "v", "a"]), inner, max_size=3)
        | st.fixed_dictionaries({"$t": tags | inner, "v": inner})
    ),
    max_leaves=12,
)


@given(st.text() | tag_like.map(json.dumps) | values.map(dumps).map(lambda text: text.replace("0", "1")))
@settings(max_examples=400)
def test_reading_fails_in_one_way_only(text: str) -> None:
    with contextlib.suppress(PayloadInvalid):
        dumps(loads(text))  # what can be read can be written again
