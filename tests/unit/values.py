"""Every kind of value that the store keeps, and what "the same value" means."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

PAIR = "\ud83d" + "\ude00"  # two characters, not the one that they spell


def same(a: Any, b: Any) -> bool:
    """Tell whether two values are equal and of exactly the same types, all the way down; NaN is itself."""
    if type(a) is not type(b):
        return False
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, set | frozenset):
        rest = list(b)
        for element in a:
            match = next((i for i, other in enumerate(rest) if same(element, other)), None)
            if match is None:
                return False
            del rest[match]
        return not rest
    if isinstance(a, float):
        return repr(a) == repr(b)
    if isinstance(a, Decimal):
        return str(a) == str(b)
    if isinstance(a, datetime | time):
        return (
            a.replace(tzinfo=None) == b.replace(tzinfo=None)
            and a.fold == b.fold
            and type(a.tzinfo) is type(b.tzinfo)
            and repr(a.tzinfo) == repr(b.tzinfo)
        )
    equal: bool = a == b
    return equal


texts = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(
    ["$t", "v", PAIR, "a" + PAIR, "\0"]
)


def fixed_zone(offset: timedelta, name: str | None) -> timezone:
    return timezone(offset) if name is None else timezone(offset, name)


fixed_zones = st.builds(
    fixed_zone, st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)), st.none() | texts
)
zones = st.none() | st.just(UTC) | fixed_zones | st.timezones()
moments = st.builds(
    lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, st.sampled_from([0, 0, 1])
)
hashable_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**53 - 2, 2**53 + 2)
    | st.integers(-(2**53) - 2, -(2**53) + 2)
    | st.floats()
    | texts
    | st.binary(max_size=20)
    | moments
    | st.dates()
    | st.builds(lambda moment: moment.timetz(), moments)
    | st.timedeltas()
    | st.decimals().filter(lambda number: not number.is_snan())
    | st.uuids()
)
hashable = st.recursive(
    hashable_leaves,
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.frozensets(inner, max_size=4),
    max_leaves=8,
)
leaves = hashable | st.just(Decimal("sNaN")) | st.just(Decimal("-sNaN12")) | st.sets(hashable, max_size=4)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(texts, inner, max_size=5)
        | st.fixed_dictionaries({"$t": inner}, optional={"v": inner})
    ),
    max_leaves=20,
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=6), inner, max_size=5),
    max_leaves=20,
)
