"""A message is sent when others can see what it is about; one that cannot be sent is made up for by the sweep."""

import logging
from datetime import datetime

import pytest
from django.db import transaction

from django_statestore import Store
from django_statestore.exceptions import TaskNotFound
from django_statestore.models import Task
from django_statestore.services import sweep as sweeping
from django_statestore.services.sweep import sweep
from django_statestore.testing import age
from tests.celery.conftest import Broker
from tests.celery.durable_tasks import BACKLOG, BACKLOGGED, Errand

pytestmark = pytest.mark.django_db(transaction=True)


class Rollback(Exception):
    """Roll a transaction back."""


def notified_until(alias: str, task_id: str) -> datetime | None:
    found: datetime | None = Task.objects.using(alias).get(key=task_id).notified_until
    return found


# -- the caller's transaction -----------------------------------------------------------------------------------------


def test_a_rolled_back_start_leaves_neither_row_nor_message(
    alias: str, names: tuple[str, ...], errand: Errand, broker: Broker
) -> None:
    with pytest.raises(Rollback), transaction.atomic(using=alias):
        BACKLOGGED[alias].start(errand, task_id="t", namespace=names)
        raise Rollback
    with pytest.raises(TaskNotFound):
        BACKLOGGED[alias].get("t", namespace=names)
    assert broker.messages(BACKLOG) == []


def test_a_start_in_a_savepoint_goes_with_the_savepoint(
    alias: str, names: tuple[str, ...], errand: Errand, broker: Broker
) -> None:
    with transaction.atomic(using=alias):
        with pytest.raises(Rollback), transaction.atomic(using=alias):
            BACKLOGGED[alias].start(errand, task_id="lost", namespace=names)
            raise Rollback
        BACKLOGGED[alias].start(errand, task_id="kept", namespace=names)
    assert broker.messages(BACKLOG) == [[alias, list(names), "kept"]]


def test_the_message_is_sent_after_the_commit(
    alias: str, names: tuple[str, ...], errand: Errand, broker: Broker
) -> None:
    with transaction.atomic(using=alias):
        BACKLOGGED[alias].start(errand, task_id="t", namespace=names)
        assert broker.messages(BACKLOG) == []
    assert broker.messages(BACKLOG) == [[alias, list(names), "t"]]
    assert notified_until(alias, "t") is not None
    assert sweep(alias).notified == 0


def test_a_start_that_is_known_already_sends_no_second_message(
    alias: str, names: tuple[str, ...], errand: Errand, broker: Broker
) -> None:
    for _ in range(3):
        BACKLOGGED[alias].start(errand, task_id="t", namespace=names)
    assert broker.messages(BACKLOG) == [[alias, list(names), "t"]]


# -- a broker that is down --------------------------------------------------------------------------------------------


def test_a_start_without_a_broker_is_made_up_for_by_a_sweep(
    alias: str, names: tuple[str, ...], errand: Errand, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with broker.away(), caplog.at_level(logging.INFO, logger="django_statestore"):
        for number in range(3):
            task = BACKLOGGED[alias].start(errand, task_id=f"t{number}", namespace=names)
            assert task.status == "ready"
            assert notified_until(alias, task.id) is None
    said = [record for record in caplog.records if not hasattr(record, "event")]
    assert len(said) == 1, "the outage is logged, not every task"
    assert "the broker does not answer" in caplog.text
    assert broker.messages(BACKLOG) == []
    assert sweep(alias).notified == 3
    assert sorted(broker.messages(BACKLOG)) == [[alias, list(names), f"t{number}"] for number in range(3)]


def test_a_sweep_without_a_broker_leaves_its_tasks_due(
    alias: str, names: tuple[str, ...], errand: Errand, broker: Broker
) -> None:
    with broker.away():
        for number in range(3):
            BACKLOGGED[alias].start(errand, task_id=f"t{number}", namespace=names)
        swept = sweep(alias)
        assert (swept.notified, swept.failed) == (0, 3)
        assert {notified_until(alias, f"t{number}") for number in range(3)} == {None}
    assert sweep(alias).notified == 3


# -- a broker that is behind ------------------------------------------------------------------------------------------


def test_a_backed_up_broker_gets_one_message_a_task_and_grace(
    alias: str, store: Store, names: tuple[str, ...], errand: Errand, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "BATCH", 2)
    for number in range(5):
        BACKLOGGED[alias].start(errand, task_id=f"t{number}", namespace=names)
    each_once = [[alias, list(names), f"t{number}"] for number in range(5)]
    for graces in range(1, 4):
        for _ in range(4):
            sweep(alias)
        assert sorted(broker.messages(BACKLOG)) == sorted(each_once * graces)
        age(store, 299)
        sweep(alias)
        assert len(broker.messages(BACKLOG)) == 5 * graces
        age(store, 2)


def test_a_new_task_is_not_kept_waiting_by_a_backlog(
    alias: str, names: tuple[str, ...], errand: Errand, broker: Broker
) -> None:
    for number in range(3):
        BACKLOGGED[alias].start(errand, task_id=f"old-{number}", namespace=names)
    with broker.away():
        BACKLOGGED[alias].start(errand, task_id="new", namespace=names)
    assert sweep(alias).notified == 1
    assert [task_id for *_, task_id in broker.messages(BACKLOG)].count("new") == 1
