"""Eight processes on one list: each place is dealt once, exactly the newest are kept, and nobody sees a gap."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from . import lists
from .course import RACERS, Course

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

flat = itertools.chain.from_iterable


def check_window(values: list[Any]) -> None:
    """Check that of what each producer appended, one after the other is there, none twice."""
    for producer in {value[0] for value in values}:
        turns = [value[1] for value in values if value[0] == producer]
        assert turns == list(range(turns[0], turns[0] + len(turns)))


def test_the_lengths_are_the_places(course: Course) -> None:
    turns = course.scaled(20)
    results = course.race(lists.append, turns)
    dealt, length, items = course.look(lists.found, "endless", RACERS * turns)
    assert dealt == length == RACERS * turns
    assert [place for place, _ in items] == list(range(1, length + 1))
    values = [value for _, value in items]
    check_window(values)
    for number, seen in enumerate(results):
        assert [values[place - 1] for place in seen.lengths] == [[number, turn] for turn in range(turns)]


def test_exactly_the_newest_are_kept(course: Course) -> None:
    turns = course.scaled(32)
    results = course.race(lists.append_and_look, turns)
    dealt, length, items = course.look(lists.found, "ten", (RACERS - 2) * turns)
    assert (dealt, length) == ((RACERS - 2) * turns, lists.KEPT)
    assert [place for place, _ in items] == list(range(dealt - lists.KEPT + 1, dealt + 1))
    lengths = Counter(flat(seen.lengths for seen in results))
    assert lengths == {lists.KEPT: dealt - lists.KEPT + 1} | dict.fromkeys(range(1, lists.KEPT), 1)
    last = [value for _, value in items]
    for window in [last, *flat(seen.windows for seen in results)]:
        assert len(window) <= lists.KEPT
        check_window(window)
    for seen in results:
        for windows in (seen.windows[::2], seen.windows[1::2]):  # the whole, and the last five
            sizes = [len(window) for window in windows]
            assert sizes == sorted(sizes), "an item was missing for a while"
    for producer in {value[0] for value in last}:  # its newest, so its very last
        assert [producer, turns - 1] in last
    assert any(flat(seen.windows for seen in results)), "this was no race"


def test_everything_at_once(course: Course) -> None:
    results: list[lists.Seen] = course.race(lists.storm, course.scaled(80))
    assert list(flat(seen.conflicts for seen in results)) == []
    assert max(flat(seen.lengths for seen in results)) <= lists.KEPT
    for window in flat(seen.windows for seen in results):
        assert len(window) <= lists.KEPT
        for producer in {value[0] for value in window}:
            turns = [value[1] for value in window if value[0] == producer]
            assert turns == sorted(set(turns))
    done = sum((seen.done for seen in results), Counter[str]())
    assert min(done[what] for what in ("append", "trim", "delete", "purge", "clear", "look")) > 0
    for after_append, length, rows in course.look(lists.settle).values():
        assert after_append == length == rows > 0
