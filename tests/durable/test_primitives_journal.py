"""The journal: numbered lines, written with a save or under a fence, or not at all."""

from dataclasses import replace

import pytest

from django_statestore.contracts.journal import CallLine, Item
from tests.durable.raw import SAVE, Raw, raw

__all__ = ["raw"]

CALL = CallLine("search", 1, b"a" * 32, '["found"]')


def test_a_call_is_written_and_read_back_until_the_next_save(raw: Raw) -> None:
    raw.start()
    raw.claim()
    at = raw.at()
    second = replace(CALL, occurrence=2, arguments=bytes(range(32)), value="null")
    assert raw.do(raw.tasks.task_journal(at, CALL))
    assert raw.do(raw.tasks.task_journal(at, second))
    assert raw.do(raw.tasks.task_calls(at.task, at.save_seq)) == [CALL, second]
    raw.commit(ending="enter")
    assert raw.do(raw.tasks.task_calls(at.task, at.save_seq + 1)) == []
    assert raw.do(raw.tasks.task_calls(at.task, at.save_seq)) == [CALL, second]


def test_a_call_does_not_move_the_lease(raw: Raw) -> None:
    raw.start()
    raw.claim()
    before = raw.record()
    raw.do(raw.tasks.task_journal(raw.at(), CALL))
    after = raw.record()
    assert (after.wake_at, after.fence, after.save_seq) == (before.wake_at, before.fence, before.save_seq)


@pytest.mark.parametrize("stale", ["fence", "save_seq"])
def test_a_stale_worker_writes_no_call(raw: Raw, stale: str) -> None:
    raw.start()
    raw.claim()
    at = raw.at()
    if stale == "fence":
        raw.bench.age(61)
        raw.claim()
    else:
        raw.commit(ending="enter")
    assert not raw.do(raw.tasks.task_journal(at, CALL))
    assert raw.do(raw.tasks.task_lines(at.task, 0, 100)) == []


def test_items_are_written_with_their_save_and_numbered_with_the_rest(raw: Raw) -> None:
    raw.start()
    raw.claim()
    task = raw.record().id
    raw.do(raw.tasks.task_journal(raw.at(), CALL))
    assert raw.commit(ending="enter", items=(Item("log", "1"), Item("other", '"x"'), Item("log", "2"))) is not None
    assert raw.commit(ending="completed", items=(Item("log", "3"),)) is not None
    assert raw.do(raw.tasks.task_items(task, "log")) == ["1", "2", "3"]
    assert raw.do(raw.tasks.task_items(task, "other")) == ['"x"']
    assert raw.do(raw.tasks.task_items(task, "none")) == []
    lines = raw.do(raw.tasks.task_lines(task, 0, 100))
    shown = [(line.number, line.kind, line.name, line.occurrence, line.save_seq, line.value) for line in lines]
    assert shown == [
        (1, "call", "search", 1, 0, '["found"]'),
        (2, "item", "log", 0, 1, "1"),
        (3, "item", "other", 0, 1, '"x"'),
        (4, "item", "log", 0, 1, "2"),
        (5, "item", "log", 0, 2, "3"),
    ]
    assert raw.do(raw.tasks.task_lines(task, 3, 1)) == lines[3:4]


@pytest.mark.parametrize("ending", ["enter", "stop", "wait", "completed", "failed"])
def test_every_ending_writes_its_items(raw: Raw, ending: str) -> None:
    raw.start()
    raw.claim()
    assert raw.commit(ending=ending, items=tuple(Item("log", str(n)) for n in range(120))) is not None
    values = raw.do(raw.tasks.task_items(raw.record().id, "log"))
    assert values == [str(n) for n in range(120)]


def test_a_stale_commit_writes_no_items(raw: Raw) -> None:
    raw.start()
    raw.claim()
    at = raw.at()
    raw.bench.age(61)
    raw.claim()
    assert raw.do(raw.tasks.task_commit(at, replace(SAVE, items=(Item("log", "1"),)))) is None
    assert raw.do(raw.tasks.task_items(at.task, "log")) == []
    assert raw.do(raw.tasks.task_lines(at.task, 0, 100)) == []
