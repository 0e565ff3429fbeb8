"""What a task costs in bytes: items are written once, and old saves are bounded whatever the size of a state."""

from __future__ import annotations

import random
from dataclasses import astuple
from typing import Any

import pytest
from django.db import connections

from django_statestore.backends.memory import MemoryBackend
from django_statestore.durable import DurableTask, Repeat, StepContext
from django_statestore.models import JournalItem, MailboxItem, Snapshot, Task
from tests.durable.conftest import Bench

TURNS = 500
MEGABYTE = 1_000_000


def text_of(size: int, seed: int) -> str:
    """Return text that compresses to no less than half its size."""
    return random.Random(seed).randbytes(size // 2).hex()


def growing(bench: Bench, turns: int, *, item: int, state: int) -> DurableTask[Any]:
    """Define and start a task that appends so many bytes in each turn, and keeps so many in its state."""
    task: DurableTask[Any] = bench.define(state=None, is_state=lambda value: True)

    @task.step(replay="safe")
    def turn(before: Any, ctx: StepContext) -> Any:
        if item:
            ctx.append("messages", text_of(item, ctx.turn))
        after = {"turn": ctx.turn, "text": text_of(state, ctx.turn)}
        return Repeat(after) if ctx.turn < turns else after

    bench.call(task.start, {}, task_id="t", namespace=bench.names)
    return task


def size(row: tuple[Any, ...]) -> int:
    return sum(len(str(value).encode()) for value in row)


def rows(bench: Bench, model: Any) -> list[int]:
    """Return the bytes of the columns of each row of a task, in the order in which they were written."""
    if isinstance(bench.store.backend, MemoryBackend):
        task = bench.store.backend.memory.tasks.of(bench.store.durable.entry("t"))
        assert task is not None
        saves: list[Any] = [task.saves[number] for number in sorted(task.saves)]
        return [size(astuple(row)) for row in (saves if model is Snapshot else task.journal)]
    order = "save_seq" if model is Snapshot else "id"
    of_task = model.objects.using(bench.alias).filter(task_id=bench.record().id).order_by(order)
    return [size(row) for row in of_task.values_list()]


def on_disk(bench: Bench) -> int:
    """Return the bytes of the tables with their indexes and what was moved out of line, on PostgreSQL; 0 elsewhere."""
    if bench.alias not in connections or connections[bench.alias].vendor != "postgresql":
        return 0
    tables = [model._meta.db_table for model in (Task, Snapshot, JournalItem, MailboxItem)]
    with connections[bench.alias].cursor() as cursor:
        cursor.execute("select sum(pg_total_relation_size(t::regclass)) from unnest(%s::text[]) as t", [tables])
        return int(cursor.fetchone()[0])


def test_five_hundred_turns_that_append_a_kilobyte_cost_a_megabyte_and_a_half_at_most(bench: Bench) -> None:
    task = growing(bench, TURNS, item=1024, state=20)
    before = on_disk(bench)
    done = bench.run(task)
    assert (done.status, done.record.save_seq) == ("completed", TURNS)
    items = rows(bench, JournalItem)
    assert len(items) == TURNS
    assert min(items) > 1024
    assert sum(items) + sum(rows(bench, Snapshot)) <= 1_500_000
    assert on_disk(bench) - before <= 1_500_000, "with every row version that no vacuum has taken away"


@pytest.mark.parametrize("bytes_of_state", [20, 20_000, 52_000, 150_000, 900_000])
def test_old_saves_cost_a_megabyte_at_most_whatever_the_size_of_the_state(bench: Bench, bytes_of_state: int) -> None:
    task = growing(bench, 25, item=0, state=bytes_of_state)
    assert bench.run(task).record.save_seq == 25
    *old, newest = rows(bench, Snapshot)
    assert newest > bytes_of_state
    assert old
    assert sum(old) <= MEGABYTE


def test_items_and_a_large_state_cost_no_more_together(bench: Bench) -> None:
    task = growing(bench, 60, item=1024, state=200_000)
    assert bench.run(task).record.save_seq == 60
    *old, _ = rows(bench, Snapshot)
    assert sum(old) <= MEGABYTE
    assert sum(rows(bench, JournalItem)) <= 60 * 1500
