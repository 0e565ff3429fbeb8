"""Eight real processes at once: never two winners, never none where one must win, and nobody sees a locked database."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from . import racers
from .course import Course

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def keys(course: Course, number: int) -> list[str]:
    return [f"key {each}" for each in range(course.scaled(number))]


def test_each_key_has_as_many_winners_as_it_must(course: Course) -> None:
    wanted = keys(course, 80)
    results = course.race(racers.one_winner, wanted)
    wrong, winners = {}, set()
    for index, (name, *_, expected) in enumerate(racers.BATCHES):
        counts = Counter(itertools.chain.from_iterable(result[index] for result in results))
        wrong[name] = {key: counts[key] for key in wanted if counts[key] != expected}
        winners |= {number for number, result in enumerate(results) if result[index]}
    assert {name: keys for name, keys in wrong.items() if keys} == {}
    assert len(winners) > 2, "this was no race"


def test_one_holds_a_lock_at_a_time_and_fences_rise(course: Course) -> None:
    fences = course.race(racers.take_turns, course.scaled(80))[0]
    for key in "ab":
        assert len(fences[key]) > 10, "this was no race"
        assert all(earlier < later for earlier, later in itertools.pairwise(fences[key]))


def test_each_event_is_confirmed_once_though_some_are_given_back(course: Course) -> None:
    events = keys(course, 40)
    confirmed = course.race(racers.handle_events, events)
    assert Counter(itertools.chain.from_iterable(confirmed)) == Counter(events)


def test_a_token_is_neither_lost_nor_doubled(course: Course) -> None:
    results = course.race(racers.pass_a_token, course.scaled(80))
    taken = sum(result[0] for result in results)
    assert taken > 10, "this was no race"
    assert {result[1] for result in results} == {taken}
