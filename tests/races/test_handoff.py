"""Eight processes after the same states: each is taken once."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from . import handoffs
from .course import Course

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def test_each_state_is_taken_once(course: Course) -> None:
    count = course.scaled(80)
    results = course.race(handoffs.take_each, count)
    taken = Counter(itertools.chain.from_iterable(taken for taken, _ in results))
    deleted = Counter(itertools.chain.from_iterable(deleted for _, deleted in results))
    assert taken + deleted == Counter(range(count))
    assert min(sum(taken.values()), sum(deleted.values())) > 0
    assert len([taken for taken, _ in results if taken]) > 1, "this was no race"


def test_a_state_that_is_set_again_is_neither_lost_nor_doubled(course: Course) -> None:
    results = course.race(handoffs.set_and_take, course.scaled(60))
    passed = sum(passed for passed, _ in results)
    assert passed > 10, "this was no race"
    assert {end for _, end in results} == {passed}
