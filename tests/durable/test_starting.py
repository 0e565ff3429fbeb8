"""Ids, idempotent starts, and the caller's transaction."""

import uuid
from typing import Any

import pytest
from django.db import connections, transaction

from django_statestore.durable import DurableTask, StepContext
from django_statestore.exceptions import (
    InvalidKey,
    InvalidTTL,
    NotSupported,
    StateInvalid,
    StoreDoesNotExist,
    TaskExists,
    TaskNotFound,
)
from tests.durable.conftest import Bench, State, on_databases


def simple(bench: Bench, **options: Any) -> DurableTask[State]:
    task = bench.define(**options)

    @task.step(replay="safe")
    def only(state: State, ctx: StepContext) -> State:
        return state.then("only")

    return task


def test_a_known_id_returns_that_task_finished_or_not(bench: Bench) -> None:
    task = simple(bench)
    first = bench.start(task)
    again = bench.start(task)
    assert first.record.id == again.record.id
    bench.run(task)
    assert bench.start(task).status == "completed"
    assert bench.rows.ids() == ["t"]


def test_a_known_id_with_another_state_or_definition_is_refused(bench: Bench) -> None:
    task, other = simple(bench), simple(bench)
    bench.start(task)
    with pytest.raises(TaskExists, match="'t'"):
        bench.start(task, state=State(("else",)))
    with pytest.raises(TaskExists):
        bench.start(other)
    bench.run(task)
    assert bench.start(task).state == State(("only",)), "the initial state still tells, though the task went on"


def test_an_id_is_made_where_none_is_given(bench: Bench) -> None:
    task = simple(bench)
    handles = [bench.call(task.start, State(), namespace=bench.names) for _ in range(2)]
    assert len({handle.id for handle in handles} | {""}) == 3
    assert all(uuid.UUID(handle.id) for handle in handles)


def test_ids_are_per_namespace_and_per_definition_on_look_up(bench: Bench) -> None:
    task, other = simple(bench), simple(bench)
    bench.start(task)
    with pytest.raises(TaskNotFound):
        bench.get(other)
    with pytest.raises(TaskNotFound):
        bench.get(task, "else")
    with pytest.raises(TaskNotFound):
        bench.call(task.get, "t")
    with pytest.raises(TaskNotFound):
        bench.run(task, "else")


def test_bad_input_is_refused_before_anything_is_written(bench: Bench) -> None:
    task = simple(bench)
    with pytest.raises(InvalidKey):
        bench.start(task, "")
    with pytest.raises(StateInvalid):
        bench.start(task, state="no state")  # type: ignore[arg-type]
    with pytest.raises(InvalidTTL, match="deadline"):
        bench.call(task.start, State(), namespace=bench.names, deadline=0)
    nowhere = simple(bench, store="nowhere")
    with pytest.raises(StoreDoesNotExist, match="nowhere"):
        bench.start(nowhere)
    assert bench.rows.ids() == []
    assert issubclass(NotSupported, Exception)


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_start_joins_the_callers_transaction(bench: Bench) -> None:
    task = simple(bench)
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=bench.alias):
        bench.start(task)
        raise ZeroDivisionError
    with pytest.raises(TaskNotFound):
        bench.get(task)
    with transaction.atomic(using=bench.alias):
        bench.start(task)
        bench.start(task)
    assert bench.run(task).status == "completed"


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_refused_start_does_not_poison_the_callers_transaction(bench: Bench) -> None:
    task = simple(bench)
    bench.start(task)
    with transaction.atomic(using=bench.alias):
        bench.start(task, "before")
        with pytest.raises(TaskExists):
            bench.start(task, state=State(("else",)))
        bench.start(task, "after")
    assert [bench.get(task, id).status for id in ("before", "after")] == ["ready", "ready"]


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_start_inside_a_block_on_another_database_waits_for_its_commit(bench: Bench) -> None:
    others = [alias for alias in connections if alias != bench.alias]
    if not others:
        return
    task = simple(bench)
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=others[0]):
        assert bench.start(task).status == "ready"
        raise ZeroDivisionError
    with pytest.raises(TaskNotFound):
        bench.get(task)
    with transaction.atomic(using=others[0]):
        handle = bench.start(task)
        assert (handle.status, handle.state, handle.step) == ("ready", State(), "only")
        with pytest.raises(TaskNotFound):
            bench.get(task)
    assert bench.get(task).status == "ready"


def test_handles_refresh_run_and_cancel(bench: Bench) -> None:
    task = simple(bench)
    handle = bench.start(task)
    assert bench.call(handle.refresh).status == "ready"
    assert bench.call(handle.run).status == "completed"
    assert handle.status == "ready", "a handle is a view of a moment"
    other = bench.start(task, "other")
    assert bench.call(other.cancel, "why").reason == "why"
    assert "State" not in repr(handle)


def test_a_deadline_may_be_given_at_start(bench: Bench) -> None:
    task = simple(bench)
    handle = bench.call(task.start, State(), task_id="t", namespace=bench.names, deadline=5)
    assert handle.checkpoint.deadline_at_ms < handle.created_at.timestamp() * 1000 + 6000
    bench.age(6)
    assert bench.run(task).reason == "deadline_passed"
