"""Eight processes and more on one queue: each item once, in order, within its limit, and no false "empty"."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.crash.ledger import Ledger

from . import queues
from .course import RACERS, Course

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

flat = itertools.chain.from_iterable


def check_order(got: Iterable[list[Any]]) -> None:
    """Check that each consumer had what one producer made in the order in which it was made."""
    for items in got:
        for producer in {item[0] for item in items}:
            turns = [item[1] for item in items if item[0] == producer]
            assert turns == sorted(turns)


def test_each_has_its_share_of_what_is_there(course: Course) -> None:
    """What is there is as much as all of them want, so none may be told that there is nothing."""
    share = course.scaled(16)
    results = course.race(queues.drain, share)
    for way in queues.WAYS:
        got = [result[way] for result in results]
        assert Counter(flat(got)) == Counter(range(share * RACERS)), way
        assert [result[f"{way}, at last"] for result in results] == [[queues.EMPTY]] * RACERS
        if way != "take":  # what comes back is not in order
            assert got == [sorted(items) for items in got]


def test_who_puts_one_in_finds_one(course: Course) -> None:
    turns = course.scaled(16)
    results = course.race(queues.circulate, turns)
    everything = Counter(itertools.product(range(RACERS), range(turns)))
    for way in queues.WAYS:
        got = [result[way] for result in results]
        assert queues.EMPTY not in flat(got), way
        assert Counter(map(tuple, flat(got))) == everything, way
        if way != "take":
            check_order(got)
    assert course.look(queues.contents) == {}


def test_producers_and_consumers(course: Course) -> None:
    turns = course.scaled(40)
    got = course.race(queues.produce_and_consume, turns)
    assert Counter(map(tuple, flat(got))) == Counter(itertools.product(range(RACERS // 2), range(turns)))
    check_order(got)
    assert course.look(queues.contents) == {}


def test_what_a_killed_taker_had_comes_back(course: Course, tmp_path: Path) -> None:
    missed = course.race(queues.die, course.scaled(24), mortal=True)
    left = Counter(course.look(queues.recover))
    assert missed == [[], None] * (RACERS // 2), "nothing was found where something must have been"
    ledger = Ledger(tmp_path / "ledger")
    noted = {what: Counter(line.step for line in ledger.lines(what)) for what in ("enqueuing", "enqueued")}
    acked, perhaps = (Counter(line.step for line in ledger.lines(what)) for what in ("acknowledged", "acknowledging"))
    assert max((left + acked).values()) == 1, "an item was had twice"
    lost = noted["enqueued"] - left - perhaps
    assert not lost
    assert not left - noted["enqueuing"]
    assert sum((perhaps - acked).values()) <= RACERS // 2


def test_twenty_find_one_place_left(course: Course) -> None:
    count = 20
    answers = course.race(queues.squeeze, count=count)
    found = course.look(queues.contents)
    old, new = [f"old {item}" for item in range(queues.LIMIT - 1)], {f"new {number}" for number in range(count)}
    for policy in ("drop-oldest", "drop-newest", "reject"):
        assert [answer[policy][1] for answer in answers] == [queues.LIMIT] * count, policy
        assert len(found[policy]) == queues.LIMIT
    assert len(set(found["drop-oldest"]) & new) == queues.LIMIT
    for policy in ("drop-newest", "reject"):
        assert found[policy][:-1] == old
        assert found[policy][-1] in new
    (winner,) = (number for number, answer in enumerate(answers) if answer["reject"][0])
    assert found["reject"][-1] == f"new {winner}"


def test_everything_at_once(course: Course) -> None:
    storms: list[queues.Storm] = course.race(queues.storm, course.scaled(100))
    consumed = Counter(flat(each.consumed for each in storms))
    assert set(consumed.values()) == {1}
    assert max(each.deepest for each in storms) <= queues.LIMIT
    assert flat_conflicts(storms) == []
    done = sum((each.done for each in storms), Counter[str]())
    assert min(done[what] for what in ("enqueue", "dequeue", "take", "ack", "release", "look", "purge", "delete")) > 0
    for stored, rows, depth in course.look(queues.settle).values():
        assert stored == rows == depth > 0


def flat_conflicts(storms: list[queues.Storm]) -> list[str]:
    return list(flat(each.conflicts for each in storms))
