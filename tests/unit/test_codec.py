"""The codec keeps every value equal and of the same type, as ASCII JSON text."""

from __future__ import annotations

import json
import math
import sys
import zoneinfo
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from django_statestore.codec import MAX_DEPTH, dumps, loads
from django_statestore.exceptions import ValueNotSerializable

from .values import PAIR, json_values, same, values

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def through(value: object) -> Any:
    """Write and read a value, and hold the text to its promises."""
    text = dumps(value)
    assert text.isascii()
    json.loads(text, parse_constant=pytest.fail)  # any JSON reader can read it
    back = loads(text)
    assert dumps(back) == text
    return back


@given(values)
@settings(max_examples=400)
def test_every_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    assert same(through(value), value)


@given(json_values)
def test_json_is_stored_as_plain_json(value: Any) -> None:
    if '"$t"' not in json.dumps(value):
        assert dumps(value) == json.dumps(value, separators=(",", ":"))


@given(st.dictionaries(st.sampled_from(["$t", "v", "x", PAIR]), values, min_size=1))
@example({"$t": "datetime", "v": "2026-01-01"})
@example({"$t": "dict", "v": ["$t", {"$t": "tuple", "v": []}]})
@example({"$t": None})
def test_a_document_that_looks_like_a_tag_survives(value: dict[str, Any]) -> None:
    assert same(through([value]), [value])


@pytest.mark.parametrize(
    "value",
    [
        None,
        -0.0,
        5e-324,
        1.7976931348623157e308,
        math.nan,
        -math.inf,
        2**53,
        -(2**53),
        2**53 + 1,
        -(2**70),
        "",
        "\0",
        "\ud800",
        "\udc00\ud800",
        PAIR,
        "😀",
        "😀" + PAIR,
        PAIR + PAIR,
        {PAIR: {PAIR: PAIR}},
        {"😀": "\\ud83d\\ude00"},
        b"",
        bytes(range(256)),
        (),
        set(),
        frozenset(),
        {"b": 1, "a": 2},
        ((), [()], {"x": ()}),
        {(1, frozenset({(2,)})), "a"},
        Decimal("-0"),
        Decimal("1E+999999"),
        Decimal("0.10"),
        Decimal("NaN123"),
        Decimal("-Infinity"),
        UUID(int=0),
        timedelta.min,
        timedelta.max,
        date.min,
        datetime.fromisoformat("9999-12-31T23:59:59.999999"),
        time.max,
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=BERLIN),
        datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),
        datetime.fromisoformat("2026-01-01").replace(fold=1),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(0), "UTC")),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(0), "")),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-5), "\ud800")),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-5), PAIR)),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(microseconds=1))),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(microseconds=-1))),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30, seconds=15))),
        time(12, tzinfo=BERLIN, fold=1),
        time(12, tzinfo=UTC),
    ],
)  # fmt: skip
def test_corner_values(value: Any) -> None:
    assert same(through(value), value)
    assert same(through({"k": [(value,)]}), {"k": [(value,)]})


def test_an_int_beyond_the_limit_on_digits_is_kept() -> None:
    value = 7 << (4 * sys.get_int_max_str_digits())
    assert through([value, -value]) == [value, -value]


def test_true_one_and_one_point_zero_stay_apart() -> None:
    assert same(through([True, 1, 1.0, {"a": False}, (0, -0.0)]), [True, 1, 1.0, {"a": False}, (0, -0.0)])


def test_several_nans_in_a_set_stay_several() -> None:
    assert len(through({float("nan"), float("nan")})) == 2


def test_a_set_is_written_in_one_order() -> None:
    names = [f"name-{n}" for n in range(50)]
    backwards = names[::-1]
    assert dumps(set(names)) == dumps(set(backwards))
    assert dumps({frozenset(names), 1}) == dumps({1, frozenset(backwards)})


def test_key_order_is_kept() -> None:
    assert dumps({"b": 1, "a": 2, "$t": 3}) == '{"$t":"dict","v":["b",1,"a",2,"$t",3]}'


def test_the_stored_form_does_not_change() -> None:
    """Entries that are in databases must stay readable: this text is a contract."""
    value = {
        "plain": [None, True, 1, 0.5, "é"],
        "naive": datetime.fromisoformat("2026-01-02T03:04:05.000006"),
        "utc": datetime(2026, 1, 2, tzinfo=UTC),
        "offset": datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        "named": datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-1), "X")),
        "zone": datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        "time": time(1, 2),
        "date": date(2026, 1, 2),
        "delta": timedelta(days=-1, seconds=2, microseconds=3),
        "decimal": Decimal("1.50"),
        "uuid": UUID(int=1),
        "bytes": b"\x00\xff",
        "big": [2**64, -(2**64)],
        "float": [math.inf, -math.inf, math.nan],
        "pair": PAIR,
        "tuple": (1, ()),
        "sets": [{2, 1}, frozenset()],
        "tag": {"$t": 1},
    }
    text = (
        r'{"plain":[null,true,1,0.5,"\u00e9"],'
        r'"naive":{"$t":"datetime","v":"2026-01-02T03:04:05.000006"},'
        r'"utc":{"$t":"datetime","v":"2026-01-02T00:00:00+00:00"},'
        r'"offset":{"$t":"datetime","v":"2026-01-02T00:00:00+05:30"},'
        r'"named":{"$t":"datetime","v":["2026-01-02T00:00:00",0,[-3600000000,"X"]]},'
        r'"zone":{"$t":"datetime","v":["2026-10-25T02:30:00",1,"Europe/Berlin"]},'
        r'"time":{"$t":"time","v":"01:02:00"},'
        r'"date":{"$t":"date","v":"2026-01-02"},'
        r'"delta":{"$t":"timedelta","v":[-1,2,3]},'
        r'"decimal":{"$t":"decimal","v":"1.50"},'
        r'"uuid":{"$t":"uuid","v":"00000000-0000-0000-0000-000000000001"},'
        r'"bytes":{"$t":"bytes","v":"AP8="},'
        r'"big":[{"$t":"int","v":"0x10000000000000000"},{"$t":"int","v":"-0x10000000000000000"}],'
        r'"float":[{"$t":"float","v":"inf"},{"$t":"float","v":"-inf"},{"$t":"float","v":"nan"}],'
        r'"pair":{"$t":"str","v":["\ud83d","\ude00"]},'
        r'"tuple":{"$t":"tuple","v":[1,{"$t":"tuple","v":[]}]},'
        r'"sets":[{"$t":"set","v":[1,2]},{"$t":"frozenset","v":[]}],'
        r'"tag":{"$t":"dict","v":["$t",1]}}'
    )
    assert dumps(value) == text
    assert same(loads(text), value)


def test_a_value_is_neither_changed_nor_shared() -> None:
    value = {"a": [1, (2, {"$t": 3})], "b": {4}}
    before = repr(value)
    back = through(value)
    back["a"][1][1]["$t"] = 0
    back["b"].add(5)
    assert repr(value) == before


def test_a_zone_that_is_not_in_the_cache_is_kept_by_its_key() -> None:
    zone = zoneinfo.ZoneInfo.no_cache("Europe/Berlin")
    assert loads(dumps(datetime(2026, 7, 1, tzinfo=zone))).tzinfo is BERLIN


# -- depth ------------------------------------------------------------------------------------------------------------


def nested(depth: int, wrap: Callable[[Any], Any], core: Any = None) -> Any:
    for _ in range(depth):
        core = wrap(core)
    return core


WRAPS: list[Callable[[Any], Any]] = [
    lambda inner: [inner],
    lambda inner: {"k": inner},
    lambda inner: {"$t": inner},
    lambda inner: (inner,),
    lambda inner: frozenset({inner}) if inner.__hash__ else [inner],
]


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("core", [None, Decimal(1)])
def test_a_hundred_containers_may_stand_in_one_another(wrap: Callable[[Any], Any], core: Any) -> None:
    deepest = nested(MAX_DEPTH, wrap, core)
    assert same(through(deepest), deepest)
    for depth in (MAX_DEPTH + 1, 50_000):
        with pytest.raises(ValueNotSerializable, match="nests more than 100 deep, or contains itself; flatten it"):
            dumps(nested(depth, wrap, core) if depth < 1000 else nested(depth, WRAPS[0], core))


def test_cycles_are_refused_at_once() -> None:
    lines: list[Any] = []
    lines += [1, lines, lines]
    tree: dict[str, Any] = {"children": []}
    tree["children"] = [{"parent": tree, "at": date(2026, 1, 1)} for _ in range(10)]
    for cycle in (lines, tree, (1, lines)):
        with pytest.raises(ValueNotSerializable, match="contains itself"):
            dumps(cycle)


def test_the_same_object_twice_is_no_cycle() -> None:
    part = [1]
    assert through([part, part, {"again": part}]) == [[1], [1], {"again": [1]}]
