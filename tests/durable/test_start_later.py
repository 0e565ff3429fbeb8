"""A task may be started for later: it is kept at once, and no step is entered before its time."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from django_statestore.durable import DurableTask, StepContext
from django_statestore.exceptions import InvalidArgument, InvalidArgumentType, InvalidDefinition, NotSupported
from tests.durable.conftest import Bench, State, on_databases


def simple(bench: Bench, **options: Any) -> DurableTask[State]:
    task = bench.define(**options)

    @task.step(replay="safe")
    def only(state: State, ctx: StepContext) -> State:
        return state.then("only")

    return task


def start(bench: Bench, task: DurableTask[State], at: Any, **options: Any) -> Any:
    return bench.call(task.start, State(), task_id="t", namespace=bench.names, at=at, **options)


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_no_step_is_entered_before_its_time(bench: Bench) -> None:
    task, at = simple(bench), soon(600)
    handle = start(bench, task, at)
    assert (handle.status, handle.step, handle.record.due) == ("ready", "only", False)
    assert timedelta(0) <= handle.record.resume_at - at < timedelta(milliseconds=1), "rounded up, never early"
    assert bench.run(task).status == "ready"
    assert bench.record().attempts == 0
    bench.age(599)
    assert bench.run(task).status == "ready"
    bench.age(2)
    assert bench.run(task).status == "completed"


def test_a_time_that_has_passed_is_now(bench: Bench) -> None:
    task = simple(bench)
    assert start(bench, task, soon(-5)).record.due
    assert bench.run(task).status == "completed"


def test_any_time_zone_will_do(bench: Bench) -> None:
    task, at = simple(bench), soon(60).replace(microsecond=0)
    elsewhere = at.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert start(bench, task, elsewhere).record.resume_at == at


def test_the_time_is_no_part_of_what_makes_a_start_the_same(bench: Bench) -> None:
    task = simple(bench)
    first = start(bench, task, soon(600))
    again = start(bench, task, soon(60))
    assert (again.record.id, again.record.resume_at) == (first.record.id, first.record.resume_at)
    assert bench.start(task).record.id == first.record.id


def test_a_deadline_comes_first_and_cancels(bench: Bench) -> None:
    task = simple(bench)
    start(bench, task, soon(50), deadline=60)
    bench.age(61)
    assert bench.run(task).reason == "deadline_passed"


@pytest.mark.parametrize(
    ("at", "error", "words"),
    [
        (datetime(2026, 1, 1), InvalidArgument, "naive"),  # noqa: DTZ001
        ("tomorrow", InvalidArgumentType, "at is a str"),
        (60, InvalidArgumentType, "at is a int"),
        (datetime.now(UTC) + timedelta(days=30), InvalidArgument, "not before the deadline"),
    ],
    ids=["naive", "text", "number", "after-deadline"],
)
def test_a_time_that_makes_no_sense_is_refused(bench: Bench, at: Any, error: type[Exception], words: str) -> None:
    task = simple(bench)
    with pytest.raises(error, match=words):
        start(bench, task, at)
    assert bench.rows.ids() == []


def test_a_task_for_later_can_be_cancelled_and_is_not_retried(bench: Bench) -> None:
    task = simple(bench)
    start(bench, task, soon(600))
    assert bench.cancel(task).reason == "enough"


# -- atomic steps -----------------------------------------------------------------------------------------------------


def atomic(bench: Bench) -> DurableTask[State]:
    task = bench.define()

    @task.step(replay="atomic", timeout=timedelta(minutes=1))
    def book(state: State, ctx: StepContext) -> State:
        return state.then("booked")

    return task


def test_an_atomic_step_wants_a_store_that_joins_transactions(bench: Bench) -> None:
    task = atomic(bench)
    assert task.steps[0].timeout == 60
    if bench.store.backend.joins_transactions:
        assert bench.start(task).status == "ready"
        return
    with pytest.raises(NotSupported, match=r"step 'book' of .* is atomic, but the store 'memory' joins no"):
        bench.start(task)
    assert bench.rows.ids() == []


@on_databases
def test_an_atomic_step_cannot_be_async_and_a_time_out_must_be_one(bench: Bench) -> None:
    task = bench.define()

    async def book(state: State, ctx: StepContext) -> State:
        return state

    with pytest.raises(InvalidDefinition, match="step 'book' is async"):
        task.step(replay="atomic")(book)
    with pytest.raises(InvalidDefinition, match="timeout must be more than zero"):
        task.step(replay="safe", timeout=0)
    book.__name__ = "two words"
    with pytest.raises(InvalidDefinition, match="'two words' has a name with a space or colon"):
        task.step(replay="safe")(book)
