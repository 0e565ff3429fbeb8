"""Whoever makes a task due sends its message: a signal, a grant, a repair, a fork, a start for soon."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.db import transaction

from django_statestore import Store
from django_statestore.durable import DurableTask, StepContext, TaskHandle, WaitFor
from django_statestore.durable.registry import unregister
from django_statestore.models import Task
from django_statestore.services import repair
from django_statestore.services.sweep import sweep
from tests.celery.conftest import Broker
from tests.celery.durable_tasks import BACKLOG

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Heard:
    """What was heard."""

    words: tuple[str, ...] = ()


@pytest.fixture
def task(alias: str) -> Iterator[DurableTask[Heard]]:
    """Define a task that waits; its messages go to a queue that no worker reads."""
    task = DurableTask("tests.waits", revision="1", state=Heard, deadline=3600, store=alias, queue=BACKLOG)

    @task.step(replay="safe")
    def ask(state: Heard, ctx: StepContext) -> Any:
        return WaitFor(state, "answer")

    @task.step(replay="safe")
    def hear(state: Heard, ctx: StepContext) -> Heard:
        raise ValueError("not now")

    yield task
    unregister(task)


@pytest.fixture
def waits(task: DurableTask[Heard], names: tuple[str, ...], broker: Broker) -> TaskHandle[Heard]:
    """Return a task that waits, with nothing sent for it any more."""
    task.start(Heard(), task_id="t", namespace=names)
    handle = task.run("t", namespace=names)
    forget(broker)
    return handle


def forget(broker: Broker) -> None:
    for path in broker.folder.glob("*.msg"):
        path.unlink()


def sent(broker: Broker) -> list[str]:
    return [arguments[2] for arguments in broker.messages(BACKLOG)]


def eta(path: Path) -> datetime:
    """Return when a message is to be read."""
    return datetime.fromisoformat(json.loads(path.read_text())["headers"]["eta"])


def trusted(alias: str, task_id: str) -> bool:
    """Return whether the sweep trusts that a message is on its way."""
    return Task.objects.using(alias).get(key=task_id).notified_until is not None


def test_a_signal_sends_a_message_only_to_a_task_that_waits_for_it(
    alias: str, waits: TaskHandle[Heard], broker: Broker
) -> None:
    waits.signal("other")
    assert sent(broker) == []
    waits.signal("answer", key="once")
    assert (sent(broker), trusted(alias, "t"), sweep(alias).notified) == (["t"], True, 0)
    waits.signal("answer", key="once")
    assert sent(broker) == ["t"]


def test_a_signal_inside_a_transaction_sends_its_message_when_it_has_committed(
    alias: str, waits: TaskHandle[Heard], broker: Broker
) -> None:
    with transaction.atomic(using=alias):
        waits.signal("answer")
        assert sent(broker) == []
    assert (sent(broker), trusted(alias, "t")) == (["t"], True)


def test_a_signal_without_a_broker_is_made_up_for_by_a_sweep(
    alias: str, waits: TaskHandle[Heard], broker: Broker
) -> None:
    with broker.away():
        waits.signal("answer")
    assert not trusted(alias, "t")
    assert (sweep(alias).notified, sent(broker)) == (1, ["t"])


def test_repairs_and_grants_send_a_message_where_they_make_a_task_due(
    alias: str, store: Store, waits: TaskHandle[Heard], broker: Broker
) -> None:
    waits.grant(attempts=1)
    assert sent(broker) == [], "it waits on"
    waits.signal("answer")
    with pytest.raises(ValueError, match="not now"):
        waits.run()
    assert waits.refresh().status == "running"
    forget(broker)
    repair.retry_now(store, "t")
    assert (sent(broker), trusted(alias, "t")) == (["t"], True)
    Task.objects.using(alias).filter(key="t").update(reason="crash_loop", wake_at=None)
    waits.grant(attempts=1)
    assert (sent(broker), trusted(alias, "t")) == (["t", "t"], True)
    assert sweep(alias).notified == 0


def test_a_fork_sends_a_message(waits: TaskHandle[Heard], broker: Broker) -> None:
    for _ in range(2):
        waits.fork(task_id="f")
    assert sent(broker) == ["f"]


@pytest.mark.parametrize(("seconds", "count"), [(5, 1), (3000, 0)], ids=["soon", "later"])
def test_a_start_for_later_sends_a_message_only_within_one_sweep(
    alias: str,
    task: DurableTask[Heard],
    names: tuple[str, ...],
    broker: Broker,
    seconds: float,
    count: int,
) -> None:
    handle = task.start(Heard(), task_id="t", namespace=names, at=datetime.now(UTC) + timedelta(seconds=seconds))
    assert (len(sent(broker)), trusted(alias, "t")) == (count, bool(count))
    assert not handle.record.due
    for path in broker.folder.glob(f"*.{BACKLOG}.msg"):
        assert handle.record.resume_at is not None
        assert abs(eta(path) - handle.record.resume_at) < timedelta(seconds=2)


@pytest.fixture
def eager() -> Iterator[None]:
    """Run tasks where they are sent, as some test suites do."""
    app = current_app._get_current_object()
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False


@pytest.mark.usefixtures("eager")
def test_eager_celery_which_cannot_wait_leaves_a_later_start_to_the_sweep(
    alias: str, task: DurableTask[Heard], names: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    handle = task.start(Heard(), task_id="t", namespace=names, at=datetime.now(UTC) + timedelta(seconds=5))
    assert (handle.refresh().record.attempts, trusted(alias, "t")) == (0, False)
    assert "not sent" not in caplog.text
