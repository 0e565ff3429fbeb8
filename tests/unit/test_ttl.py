"""Durations: seconds or a timedelta become whole milliseconds, or are refused."""

from __future__ import annotations

import enum
import math
import sys
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_statestore.exceptions import InvalidTTL, InvalidTTLType, StateStoreError
from django_statestore.ttl import CEILING, milliseconds, optional_milliseconds, wait_milliseconds

LONGEST = 3653 * 86_400


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1000),
        (60, 60_000),
        (0.4, 400),
        (0.3, 300),  # whose binary form lies above 0.3
        (0.1 + 0.2, 300),
        (1.005, 1005),
        (2.675, 2675),
        (0.001, 1),
        (0.0011, 2),
        (0.0001, 1),
        (1e-9, 1),
        (sys.float_info.min, 1),
        (5e-324, 1),
        (1.0, 1000),
        (timedelta(seconds=1.5), 1500),
        (timedelta(microseconds=1), 1),
        (timedelta(microseconds=1001), 2),
        (timedelta(days=1), 86_400_000),
        (LONGEST, LONGEST * 1000),
        (float(LONGEST), LONGEST * 1000),
        (timedelta(seconds=LONGEST), LONGEST * 1000),
    ],
    ids=repr,
)
def test_fractions_are_rounded_up_to_the_millisecond(value: Any, expected: int) -> None:
    assert milliseconds(value) == expected
    assert type(milliseconds(value)) is int


@given(st.floats(min_value=5e-324, max_value=float(LONGEST)))
@example(0.1 + 0.7)
def test_no_duration_is_cut_down(value: float) -> None:
    result = milliseconds(value)
    assert result >= 1
    assert Fraction(value) * 1000 - Fraction(1, 1000) <= result < Fraction(value) * 1000 + 1


@given(st.integers(1, LONGEST * 1000))
def test_whole_milliseconds_survive_as_seconds(value: int) -> None:
    assert milliseconds(value / 1000) == value
    assert milliseconds(timedelta(milliseconds=value)) == value


def test_subclasses_of_numbers_are_numbers() -> None:
    class Window(enum.IntEnum):
        SHORT = 5

    class Seconds(float):
        pass

    assert type(milliseconds(Window.SHORT)) is int
    assert milliseconds(Window.SHORT) == 5000
    assert milliseconds(Seconds(0.5)) == 500


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (0, "more than zero"),
        (0.0, "more than zero"),
        (-0.0, "more than zero"),
        (-1, "more than zero"),
        (-0.0001, "more than zero"),
        (-1e300, "more than zero"),
        (-sys.float_info.max, "more than zero"),
        (timedelta(0), "more than zero"),
        (timedelta(microseconds=-1), "more than zero"),
        (timedelta.min, "more than zero"),
        (-(10**40), "more than zero"),
        (math.nan, "finite"),
        (math.inf, "finite"),
        (-math.inf, "finite"),
        (True, "boolean"),
        (False, "boolean"),
        (LONGEST + 1, "ten years"),
        (LONGEST + 0.001, "ten years"),
        (CEILING + timedelta(microseconds=1), "ten years"),
        (timedelta.max, "ten years"),
        (10**16, "ten years"),
        (10**400, "ten years"),
        (1e300, "ten years"),
        (sys.float_info.max, "ten years"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_life_time_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(InvalidTTL, match=reason) as caught:
        milliseconds(value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, StateStoreError)


@pytest.mark.parametrize("value", ["1", b"1", None, Decimal(1), Fraction(1), 1j, [1], object()], ids=repr)
def test_another_type_is_a_type_error_and_a_value_error(value: Any) -> None:
    with pytest.raises(InvalidTTLType, match="seconds") as caught:
        milliseconds(value)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


def test_an_error_names_the_argument() -> None:
    with pytest.raises(InvalidTTL, match=r"^lease must"):
        milliseconds(0, "lease")


def test_none_means_no_expiry_where_it_is_allowed() -> None:
    assert optional_milliseconds(None) is None
    assert optional_milliseconds(2) == 2000
    with pytest.raises(InvalidTTL):
        optional_milliseconds(0)


@pytest.mark.parametrize("value", [0, 0.0, timedelta(0)], ids=repr)
def test_a_wait_may_be_zero(value: Any) -> None:
    assert wait_milliseconds(value) == 0


@pytest.mark.parametrize("value", [-1, True, False, math.nan, math.inf, LONGEST + 1, None, "", "1"], ids=repr)
def test_a_wait_is_otherwise_a_duration(value: Any) -> None:
    with pytest.raises(InvalidTTL):
        wait_milliseconds(value)
    assert wait_milliseconds(0.25) == 250
