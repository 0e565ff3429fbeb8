"""The past of a task: its saves, their states, where two of them differ, and its journal."""

from dataclasses import replace
from typing import Any

import pytest

from django_statestore.contracts.taskrecord import RING
from django_statestore.durable import ABSENT, Difference, DurableTask, Repeat, StepContext
from django_statestore.durable.comparing import compare
from django_statestore.durable.registry import unregister
from django_statestore.exceptions import InvalidArgument, SnapshotGone, TaskNotFound
from django_statestore.services import inspect
from tests.durable.conftest import Bench, State


def counting(bench: Bench, turns: int = 3) -> DurableTask[State]:
    """Define a task that counts in one step, appending each number, and ends in another."""
    task = bench.define()

    @task.step(replay="safe")
    def count(state: State, ctx: StepContext) -> object:
        ctx.append("numbers", ctx.turn)
        state = replace(state, n=ctx.turn)
        return Repeat(state) if ctx.turn < turns else state

    @task.step(replay="safe")
    def end(state: State, ctx: StepContext) -> State:
        ctx.call("look", lambda: "seen")
        return state.then("ended")

    return task


def test_history_lists_every_kept_save_the_oldest_first(bench: Bench) -> None:
    task = counting(bench)
    handle = bench.start(task)
    bench.run(task)
    saves = bench.call(handle.history)
    assert [(each.save, each.step, each.next_index, each.turn, each.attempts, each.outcome) for each in saves] == [
        (0, "", 0, 1, 0, "started"),
        (1, "count", 0, 1, 1, "repeated"),
        (2, "count", 0, 2, 2, "repeated"),
        (3, "count", 1, 3, 3, "done"),
        (4, "end", 2, 1, 4, "done"),
    ]
    assert all(each.size > 0 and each.saved_at >= saves[0].saved_at for each in saves)
    assert [each.milliseconds is None for each in saves] == [True, False, False, False, False]
    assert [bool(each.worker) for each in saves] == [False, True, True, True, True]


def test_the_state_after_any_kept_save_is_there(bench: Bench) -> None:
    task = counting(bench)
    handle = bench.start(task, state=State(("begun",)))
    bench.run(task)
    assert [bench.call(handle.state_after, save) for save in range(5)] == [
        State(("begun",), 0),
        State(("begun",), 1),
        State(("begun",), 2),
        State(("begun",), 3),
        State(("begun", "ended"), 3),
    ]


def test_a_save_that_is_not_kept_is_said_to_be_gone(bench: Bench) -> None:
    task = counting(bench, turns=RING + 5)
    handle = bench.start(task)
    bench.run(task)
    kept = [each.save for each in bench.call(handle.history)]
    assert kept == list(range(RING + 6 - RING + 1, RING + 7))
    for save in (0, kept[0] - 1, kept[-1] + 1):
        with pytest.raises(SnapshotGone, match=f"save {save} of the task 't'"):
            bench.call(handle.state_after, save)
        with pytest.raises(SnapshotGone):
            bench.call(handle.diff, save, kept[-1])
        with pytest.raises(SnapshotGone):
            bench.call(handle.diff, kept[-1], save)
    with pytest.raises(InvalidArgument, match="save"):
        bench.call(handle.state_after, -1)


def test_a_difference_names_the_place_and_both_values(bench: Bench) -> None:
    task = counting(bench)
    handle = bench.start(task)
    bench.run(task)
    assert bench.call(handle.diff, 0, 4) == [Difference("$.ran[0]", ABSENT, "ended"), Difference("$.n", 0, 3)]
    assert bench.call(handle.diff, 4, 0) == [Difference("$.ran[0]", "ended", ABSENT), Difference("$.n", 3, 0)]
    assert bench.call(handle.diff, 2, 2) == []


def test_the_journal_shows_items_and_calls_page_by_page(bench: Bench) -> None:
    task = counting(bench)
    handle = bench.start(task)
    bench.run(task)
    lines = bench.call(handle.journal)
    assert [(line.number, line.kind, line.name, line.save_seq, line.value) for line in lines] == [
        (1, "item", "numbers", 1, "1"),
        (2, "item", "numbers", 2, "2"),
        (3, "item", "numbers", 3, "3"),
        (4, "call", "look", 3, '"seen"'),
    ]
    assert bench.call(handle.journal, after=1, limit=2) == lines[1:3]
    assert bench.call(handle.items, "numbers") == [1, 2, 3]
    assert bench.call(handle.items, "else") == []
    with pytest.raises(InvalidArgument, match="limit"):
        bench.call(handle.journal, limit=0)


def test_the_past_of_a_task_is_shown_by_store_and_id_whoever_made_it(bench: Bench) -> None:
    task = counting(bench)
    handle = bench.start(task)
    bench.run(task)
    bench.call(bench.get(task).refresh)
    unregister(task)
    assert inspect.history(bench.store, "t") == bench.call(handle.history)
    assert inspect.state_after(bench.store, "t", 4) == {"ran": ["ended"], "n": 3}
    assert inspect.diff(bench.store, "t", 1, 2) == [Difference("$.n", 1, 2)]
    assert inspect.journal(bench.store, "t", after=3) == bench.call(handle.journal)[3:]
    assert inspect.items(bench.store, "t", "numbers") == [1, 2, 3]
    assert (inspect.letters(bench.store, "t"), inspect.waiting(bench.store, "t")) == ([], None)
    assert inspect.step_differences(bench.store, "t") == []
    with pytest.raises(TaskNotFound, match="'nobody'"):
        inspect.history(bench.store, "nobody")


NAN = float("nan")


@pytest.mark.parametrize(
    ("before", "after", "differences"),
    [
        (1, 1, []),
        (1, 1.0, [("$", 1, 1.0)]),
        (True, 1, [("$", True, 1)]),
        (NAN, NAN, []),
        ({"a": 1, "b": 2}, {"b": 2, "c": 3}, [("$.a", 1, ABSENT), ("$.c", ABSENT, 3)]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, [("$.a[1].b", 2, 3)]),
        ([1, 2], [1], [("$[1]", 2, ABSENT)]),
        ([1], (1,), [("$", [1], (1,))]),
        ((1, 2), (1, 3), [("$[1]", 2, 3)]),
        ({"a": {1, 2}}, {"a": {2, 1}}, []),
        ({"a b": None}, {"a b": {}}, [('$["a b"]', None, {})]),
    ],
    ids=repr,
)
def test_values_differ_where_their_texts_would(before: Any, after: Any, differences: list[Any]) -> None:
    assert [(each.path, each.before, each.after) for each in compare(before, after)] == differences
