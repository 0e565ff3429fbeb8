"""Signals, cancels and grants: asked of a task at any time, kept durably, and applied once."""

from typing import Any

import pytest
from django.db import connections, transaction

from django_statestore.durable import DurableTask, StepContext, WaitFor
from django_statestore.durable.registry import unregister
from django_statestore.exceptions import (
    InvalidArgument,
    InvalidArgumentType,
    InvalidKey,
    InvalidTTL,
    RepairRefused,
    TaskFinished,
    TaskNotFound,
    ValueNotSerializable,
)
from django_statestore.services import repair
from django_statestore.services.sweep import sweep
from tests.durable.conftest import Bench, State, on_databases


def asking(bench: Bench, **options: Any) -> DurableTask[State]:
    """Define a task that waits for an answer and keeps it."""
    task = bench.define(**options)

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return WaitFor(state.then("asked"), "answer", timeout=600)

    @task.step(replay="safe")
    def hear(state: State, ctx: StepContext) -> State:
        return state.then(f"heard {ctx.received.payload if ctx.received else None}")

    return task


def send(bench: Bench, task: DurableTask[State], payload: object = None, **options: Any) -> Any:
    return bench.call(task.signal, "t", "answer", payload, namespace=bench.names, **options)


def test_the_view_tells_what_a_task_waits_for(bench: Bench) -> None:
    task = asking(bench)
    assert bench.start(task).waiting is None
    waits = bench.run(task).waiting
    assert waits is not None
    assert (waits.name, waits.form, waits.permission) == ("answer", "", "")
    assert waits.until == bench.record().resume_at
    heard = send(bench, task, 7)
    assert heard.waiting is not None, "a view is of a moment: nobody has looked yet"
    done = bench.run(task)
    assert (done.waiting, done.state.ran) == (None, ("asked", "heard 7"))


def test_a_signal_makes_a_task_due_only_where_it_waits_for_that_name(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    bench.run(task)
    assert not bench.call(task.signal, "t", "other", namespace=bench.names).record.due
    handle = bench.get(task)
    assert bench.call(handle.signal, "answer", 1).record.due


def test_signals_with_one_key_count_once(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    for payload in (1, 2, 3):
        send(bench, task, payload, key="click", sender=f"user {payload}")
    send(bench, task, 4, key="another")
    assert [(letter.name, letter.sender) for letter in bench.call(bench.get(task).letters)] == [
        ("answer", "user 1"),
        ("answer", ""),
    ]
    assert bench.record().signal_seq == 2
    bench.run(task)
    assert bench.run(task).state.ran[-1] == "heard 1"
    letters = bench.call(bench.get(task).letters)
    assert [letter.used_at is not None for letter in letters] == [True, False]
    assert [letter.seq for letter in letters] == [1, 2]


def test_nobody_signals_a_task_that_has_ended_or_never_was(bench: Bench) -> None:
    task = asking(bench)
    with pytest.raises(TaskNotFound, match="'t'"):
        send(bench, task)
    bench.start(task)
    bench.cancel(task)
    with pytest.raises(TaskFinished, match="ended"):
        send(bench, task)
    with pytest.raises(TaskFinished, match="ended"):
        bench.call(bench.get(task).grant, attempts=1)


def test_what_a_foreign_engine_keeps_takes_no_requests(bench: Bench) -> None:
    task = asking(bench)
    checkpoint = bench.start(task, "like").checkpoint
    bench.store.durable.save("t", checkpoint)
    with pytest.raises(TaskNotFound, match="not one that this engine drives"):
        send(bench, task)
    with pytest.raises(TaskNotFound, match="not one that this engine drives"):
        bench.cancel(task)
    with pytest.raises(TaskNotFound, match="not one that this engine drives"):
        bench.call(bench.get(task).retry_now)


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("", {}, InvalidKey),
        ("answer", {"key": ""}, InvalidKey),
        ("answer", {"key": "statestore:answer:1"}, InvalidArgument),
        ("answer", {"sender": 7}, InvalidArgumentType),
        ("answer", {"payload": object()}, ValueNotSerializable),
    ],
    ids=["empty-name", "empty-key", "reserved-key", "sender", "payload"],
)
def test_a_bad_signal_is_refused_before_anything_is_written(
    bench: Bench, name: str, options: dict[str, Any], error: type[Exception]
) -> None:
    task = asking(bench)
    bench.start(task)
    with pytest.raises(error):
        bench.call(task.signal, "t", name, namespace=bench.names, **options)
    assert bench.call(bench.get(task).letters) == []


def test_a_signal_may_be_sent_by_store_and_id(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    bench.run(task)
    unregister(task)
    for payload in (1, 2):
        assert repair.signal(bench.store, "t", "answer", payload, key="once", sender="ann").due
    assert bench.run(task).state.ran[-1] == "heard 1"


# -- grants -----------------------------------------------------------------------------------------------------------


def test_a_grant_adds_to_the_limits_of_a_waiting_task_and_lets_it_wait(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    before = bench.run(task)
    after = bench.call(before.grant, attempts=3, deadline=7200, sender="ann")
    assert after.record.max_attempts == before.record.max_attempts + 3
    assert 7190 < (after.record.deadline - after.record.now).total_seconds() <= 7200  # type: ignore[operator]
    assert (after.waiting, after.record.due, after.record.resume_at) == (before.waiting, False, before.record.resume_at)
    assert bench.call(after.grant, deadline=60).record.deadline == after.record.deadline, "it never takes away"


def test_a_grant_takes_a_parked_task_up_again(bench: Bench) -> None:
    task = asking(bench, max_attempts=2)
    bench.start(task)
    bench.run(task)
    bench.rows.change("t", "reason", "attempts_exhausted")
    handle = bench.get(task)
    assert handle.parked
    send(bench, task, "yes")
    assert (bench.call(handle.grant, attempts=1).parked, bench.record().reason) == (False, "")
    assert bench.run(task).state.ran[-1] == "heard yes"


def test_a_grant_to_a_running_task_leaves_it_its_lease(bench: Bench) -> None:
    task = bench.define(max_attempts=1)
    seen: list[int] = []

    @task.step(replay="safe")
    def work(state: State, ctx: StepContext) -> State:
        handle = task.get("t", namespace=bench.names)
        seen.append(handle.grant(attempts=4).record.fence - handle.record.fence)
        return state.then("worked")

    bench.start(task)
    assert (bench.run(task).status, seen, bench.record().max_attempts) == ("completed", [0], 5)


def test_a_grant_that_grants_nothing_or_too_much_is_refused(bench: Bench) -> None:
    task = asking(bench)
    handle = bench.start(task)
    with pytest.raises(InvalidArgument, match="grants nothing"):
        bench.call(handle.grant)
    with pytest.raises(InvalidArgument, match="attempts must be from 0"):
        bench.call(handle.grant, attempts=-1)
    with pytest.raises(InvalidArgument, match="beyond"):
        bench.call(handle.grant, attempts=2**31 - 1)
    with pytest.raises(InvalidTTL, match="deadline"):
        bench.call(handle.grant, deadline=0)
    with pytest.raises(RepairRefused, match="no model budget"):
        bench.call(handle.grant, model_calls=1)
    assert bench.call(handle.letters) == []


def test_grants_and_cancels_are_kept_with_who_asked(bench: Bench) -> None:
    task = asking(bench)
    handle = bench.start(task)
    bench.call(handle.grant, attempts=2, sender="ann")
    bench.call(handle.cancel, "enough", sender="bob")
    assert [(line.kind, line.name, line.sender) for line in bench.call(handle.journal)] == [
        ("repair", "grant", "ann"),
        ("repair", "cancel", "bob"),
    ]
    assert [(letter.kind, letter.sender) for letter in bench.call(handle.letters)] == [
        ("grant", "ann"),
        ("cancel", "bob"),
    ]


# -- the caller's transaction -----------------------------------------------------------------------------------------


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_requests_inside_a_transaction_are_applied_when_it_commits(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    waits = bench.run(task)
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=bench.alias):
        send(bench, task, "never")
        raise ZeroDivisionError
    assert bench.rows.requests("t") == []
    with transaction.atomic(using=bench.alias):
        assert not send(bench, task, "yes", sender="ann").record.due
        bench.call(waits.grant, attempts=2)
        assert bench.record().max_attempts == waits.record.max_attempts, "the row is not touched inside it"
    assert bench.record().due
    assert bench.record().max_attempts == waits.record.max_attempts + 2
    assert bench.run(task).state.ran[-1] == "heard yes"


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_signal_whose_commit_hook_was_lost_is_applied_by_the_sweep(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    bench.run(task)
    with transaction.atomic(using=bench.alias):
        send(bench, task, "yes")
        connections[bench.alias].run_on_commit.clear()
    assert not bench.record().due
    bench.age(2)
    assert sweep(bench.alias).applied == 1
    assert bench.run(task).state.ran[-1] == "heard yes"


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_request_that_comes_too_late_is_marked_as_dropped(bench: Bench) -> None:
    task = asking(bench)
    handle = bench.start(task)
    with transaction.atomic(using=bench.alias):
        send(bench, task, "yes")
        connections[bench.alias].run_on_commit.clear()
    bench.cancel(task)
    bench.age(2)
    sweep(bench.alias)
    assert [(letter.kind, letter.dropped) for letter in bench.call(handle.letters)] == [
        ("signal", True),
        ("cancel", False),
    ]


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_signal_inside_a_block_on_another_database_waits_for_its_commit(bench: Bench) -> None:
    others = [alias for alias in connections if alias != bench.alias]
    if not others:
        return
    task = asking(bench)
    bench.start(task)
    bench.run(task)
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=others[0]):
        send(bench, task, "never")
        raise ZeroDivisionError
    with transaction.atomic(using=others[0]):
        send(bench, task, "yes")
        with pytest.raises(TaskNotFound):
            bench.call(task.signal, "nobody", "answer", namespace=bench.names)
        assert not bench.record().due
    assert bench.record().due
    assert bench.run(task).state.ran[-1] == "heard yes"
