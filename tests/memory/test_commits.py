"""Durable tasks in memory, and the caller's transaction: a start and a request wait for its commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

from django_statestore import Store, stores
from django_statestore.durable import DurableTask, StepContext
from django_statestore.durable.registry import unregister
from django_statestore.exceptions import TaskExists, TaskNotFound
from django_statestore.services.work import drive_due
from testproject.celery import app
from tests.calling import Call

SCRATCH = {"scratch": {"BACKEND": "django_statestore.backends.memory.MemoryBackend"}}

commits = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture
def scratch(settings: Any) -> Store:
    settings.STATESTORES = {**settings.STATESTORES, **SCRATCH}
    settings.STATESTORE = {"HINTS": False}
    return stores["scratch"]


@pytest.fixture
def task(scratch: Store) -> Iterator[DurableTask[Any]]:
    task: DurableTask[Any] = DurableTask(
        "memory.t", revision="1", deadline=60, is_state=lambda value: isinstance(value, list), store="scratch"
    )

    @task.step(replay="safe")
    def first(state: list[Any], ctx: StepContext) -> list[Any]:
        return [*state, "first"]

    @task.step(replay="safe")
    def second(state: list[Any], ctx: StepContext) -> list[Any]:
        return [*state, "second"]

    yield task
    unregister(task)


@pytest.mark.django_db
def test_a_task_is_started_and_driven_in_memory(task: DurableTask[Any], call: Call) -> None:
    assert call(task.start, [], task_id="t").status == "ready"
    assert call(task.run, "t").state == ["first", "second"]
    assert call(task.get, "t").status == "completed"


@pytest.mark.django_db
def test_the_work_service_drives_what_is_due(task: DurableTask[Any]) -> None:
    for number in range(5):
        task.start([number], task_id=f"t{number}")
    assert drive_due("scratch", bool) == 5
    assert [task.get(f"t{number}").state for number in range(5)] == [[n, "first", "second"] for n in range(5)]


def test_without_any_database_at_hand(task: DurableTask[Any], call: Call) -> None:
    """pytest-django lets this test touch no database."""
    call(task.start, [], task_id="t")
    assert call(call(task.get, "t").run).status == "completed"


@commits
@pytest.mark.parametrize("alias", list(connections))
def test_a_start_inside_a_block_waits_for_its_commit(task: DurableTask[Any], call: Call, alias: str) -> None:
    with transaction.atomic(using=alias):
        handle = call(task.start, ["x"], task_id="t")
        assert (handle.status, handle.state, handle.step) == ("ready", ["x"], "first")
        with pytest.raises(TaskNotFound):
            call(task.get, "t")
    assert call(task.get, "t").state == ["x"]


@commits
def test_a_start_inside_a_block_that_is_rolled_back_never_was(task: DurableTask[Any], call: Call) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        call(task.start, [], task_id="t")
        raise ZeroDivisionError
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            call(task.start, [], task_id="t")
            raise ZeroDivisionError
        call(task.start, [], task_id="other")
    with pytest.raises(TaskNotFound):
        call(task.get, "t")
    assert call(task.get, "other").status == "ready"


@commits
def test_a_start_in_an_async_view_below_a_block_waits_for_it_too(task: DurableTask[Any]) -> None:
    def view() -> None:
        with transaction.atomic():
            async_to_sync(task.astart)([], task_id="t")
            with pytest.raises(TaskNotFound):
                task.get("t")

    async def serve() -> None:
        await sync_to_async(view)()

    async_to_sync(serve)()
    assert task.get("t").status == "ready"


@commits
def test_a_start_that_is_refused_at_the_commit_does_not_undo_it(
    task: DurableTask[Any], caplog: pytest.LogCaptureFixture
) -> None:
    task.start(["one"], task_id="t")
    with pytest.raises(TaskExists):
        task.start(["another"], task_id="t")
    with transaction.atomic():
        task.start(["another"], task_id="t")
        task.start(["x"], task_id="after")
    assert "TaskExists" in caplog.text
    assert (task.get("t").state, task.get("after").state) == (["one"], ["x"])


@commits
def test_a_cancel_inside_a_block_waits_for_its_commit(task: DurableTask[Any], call: Call) -> None:
    call(task.start, [], task_id="t")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        assert call(task.cancel, "t", "why").status == "ready"
        raise ZeroDivisionError
    assert call(task.get, "t").status == "ready"
    with transaction.atomic():
        assert call(task.cancel, "t", "why").status == "ready"
    ended = call(task.get, "t")
    assert (ended.status, ended.reason) == ("cancelled", "why")


@commits
def test_a_signal_and_a_grant_inside_a_block_wait_for_its_commit(task: DurableTask[Any], call: Call) -> None:
    handle = call(task.start, [], task_id="t")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        call(task.signal, "t", "go", key="once")
        raise ZeroDivisionError
    with transaction.atomic():
        call(task.signal, "t", "go", key="once")
        call(task.signal, "t", "go", key="once")
        call(handle.grant, attempts=1)
        assert call(handle.letters) == []
    assert [letter.kind for letter in call(handle.letters)] == ["signal", "grant"]


@commits
def test_a_task_may_be_driven_inside_a_block_and_stays_driven(task: DurableTask[Any], call: Call) -> None:
    call(task.start, [], task_id="t")
    with transaction.atomic():
        assert call(task.run, "t").status == "completed"
        transaction.set_rollback(True)
    assert call(task.get, "t").status == "completed"


@pytest.mark.django_db
def test_directly_in_the_block_of_a_test_case_a_start_is_done_at_once(task: DurableTask[Any], call: Call) -> None:
    call(task.start, [], task_id="t")
    assert call(task.get, "t").status == "ready"
    with transaction.atomic():
        call(task.start, [], task_id="inner")
        with pytest.raises(TaskNotFound):
            call(task.get, "inner")


@pytest.fixture
def eager() -> Iterator[None]:
    """Run Celery's tasks where they are sent, as some test suites do."""
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False


@pytest.mark.django_db
@pytest.mark.usefixtures("eager")
def test_with_eager_celery_a_start_is_driven_at_once(task: DurableTask[Any], call: Call, settings: Any) -> None:
    settings.STATESTORE = {"HINTS": True}
    call(task.start, [], task_id="t")
    assert call(task.get, "t").state == ["first", "second"]
