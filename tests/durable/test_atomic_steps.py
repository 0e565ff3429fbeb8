"""An atomic step: its writes and its save are one transaction."""

from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connections, transaction

from django_statestore import stores
from django_statestore.durable import DurableTask, StepContext, WaitFor
from django_statestore.exceptions import LeaseLost
from django_statestore.models import KVEntry
from tests.durable.conftest import Bench, State, on_databases

pytestmark = [on_databases, pytest.mark.django_db(databases="__all__", transaction=True)]


def booking(bench: Bench, then: Any = None) -> DurableTask[State]:
    """Define a task whose atomic step writes through the store, on the store's own database, and then does more."""
    task = bench.define()

    @task.step(replay="safe")
    def begin(state: State, ctx: StepContext) -> State:
        return state.then("begun")

    @task.step(replay="atomic")
    def book(state: State, ctx: StepContext) -> Any:
        ctx.store.kv.set(f"booked {ctx.attempt}", 1)
        ctx.append("bookings", ctx.attempt)
        return state.then("booked") if then is None else then(state, ctx)

    @task.step(replay="safe")
    def end(state: State, ctx: StepContext) -> State:
        return state.then("ended")

    bench.start(task)
    return task


def booked(bench: Bench) -> list[str]:
    rows = KVEntry.objects.using(bench.alias).filter(namespace__endswith=bench.names[-1])
    return sorted(rows.values_list("key", flat=True))


def test_the_writes_of_the_step_and_its_save_are_committed_together(bench: Bench) -> None:
    done = bench.run(booking(bench))
    assert (done.status, done.state.ran) == ("completed", ("begun", "booked", "ended"))
    assert booked(bench) == ["booked 1"]
    assert done.record.attempts == 3


def test_a_step_that_raises_takes_its_writes_with_it_and_spends_its_attempt(bench: Bench) -> None:
    fails = [True]

    def then(state: State, ctx: StepContext) -> State:
        if fails:
            fails.clear()
            raise ValueError("not now")
        return state.then("booked")

    task = booking(bench, then)
    with pytest.raises(ValueError, match="not now"):
        bench.run(task)
    assert booked(bench) == []
    assert bench.get(task).last_error.startswith("ValueError: not now")
    bench.age(10)
    assert bench.run(task).state.ran == ("begun", "booked", "ended")
    assert booked(bench) == ["booked 2"]


def test_a_worker_that_was_taken_over_is_rolled_back_as_a_whole(bench: Bench) -> None:
    def then(state: State, ctx: StepContext) -> State:
        with connections[bench.alias].cursor() as cursor:  # what another worker's claim would do to the row
            cursor.execute("update statestore_task set fence = fence + 1 where id = %s", [bench.record().id])
        return state.then("booked")

    task = booking(bench, then)
    with pytest.raises(LeaseLost):
        bench.run(task)
    assert booked(bench) == []
    assert bench.get(task).state.ran == ("begun",)


def test_an_interrupted_atomic_step_is_entered_again(bench: Bench) -> None:
    task = booking(bench)
    bench.one_step(task)
    bench.die(task)
    assert bench.run(task).state.ran == ("begun", "booked", "ended")
    assert booked(bench) == ["booked 2"]


def test_a_callback_that_raises_after_the_commit_marks_no_step_as_failed(bench: Bench) -> None:
    def then(state: State, ctx: StepContext) -> State:
        transaction.on_commit(lambda: 1 / 0, using=bench.alias)
        return state.then("booked")

    task = booking(bench, then)
    done = bench.run(task)
    assert (done.status, done.state.ran, done.last_error) == ("completed", ("begun", "booked", "ended"), "")
    assert booked(bench) == ["booked 1"]


def test_a_broken_transaction_cannot_be_saved(bench: Bench) -> None:
    def then(state: State, ctx: StepContext) -> State:
        try:
            with connections[bench.alias].cursor() as cursor:
                cursor.execute("select nothing from nowhere")
        except DatabaseError:
            transaction.set_rollback(True, using=bench.alias)
        return state.then("booked")

    task = booking(bench, then)
    with pytest.raises(Exception):  # noqa: B017, PT011
        bench.run(task)
    assert booked(bench) == []
    assert bench.get(task).state.ran == ("begun",)
    assert bench.get(task).status == "running"


def test_a_constraint_that_fails_at_commit_is_a_failure_of_the_step(bench: Bench) -> None:
    if connections[bench.alias].vendor != "postgresql":
        pytest.skip("only PostgreSQL has a constraint here that is checked at COMMIT")
    with connections[bench.alias].cursor() as cursor:
        cursor.execute("create table if not exists late (n int unique deferrable initially deferred)")

    def then(state: State, ctx: StepContext) -> State:
        with connections[bench.alias].cursor() as cursor:
            cursor.execute("insert into late values (1), (1)")
        return state.then("booked")

    task = booking(bench, then)
    try:
        with pytest.raises(IntegrityError):
            bench.run(task)
    finally:
        with connections[bench.alias].cursor() as cursor:
            cursor.execute("drop table late")
    assert (booked(bench), bench.get(task).status) == ([], "running")


def test_an_atomic_step_may_wait(bench: Bench) -> None:
    task = booking(bench, lambda state, ctx: WaitFor(state.then("booked"), "answer"))
    waits = bench.run(task)
    assert (waits.status, waits.step, booked(bench)) == ("ready", "end", ["booked 1"])
    bench.call(task.signal, "t", "answer", namespace=bench.names)
    assert bench.run(task).status == "completed"


def test_items_are_committed_with_the_step(bench: Bench) -> None:
    task = booking(bench)
    bench.run(task)
    record = bench.record()
    assert bench.engine.task_items(record.id, "bookings").run() == ["1"]


def test_calls_are_only_made(bench: Bench) -> None:
    def then(state: State, ctx: StepContext) -> State:
        return state.then(ctx.call("say", str.upper, "booked"))

    assert bench.run(booking(bench, then)).state.ran[1] == "BOOKED"
    assert bench.engine.task_calls(bench.record().id, 1).run() == []


def test_a_queue_is_taken_from_exactly_once(bench: Bench) -> None:
    """Dequeue joins the step's transaction: rolled back with it, committed with it."""
    fails = [True]

    def then(state: State, ctx: StepContext) -> State:
        item = ctx.store.queue.dequeue("orders")
        if fails:
            fails.clear()
            raise ConnectionError("the step fails after it took the item")
        return state.then(str(item))

    task = booking(bench, then)
    stores[bench.alias].at(bench.names).queue.enqueue("orders", "order 7")
    with pytest.raises(ConnectionError):
        bench.run(task)
    bench.age(10)
    assert bench.run(task).state.ran[1] == "order 7"
    assert bench.store.queue.depth("orders") == 0
