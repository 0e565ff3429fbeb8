"""A worker drives what a message names; messages that come twice or too early do no harm."""

import time

import pytest
from django.db import transaction

from django_statestore import Store
from django_statestore.durable import TaskHandle, dispatch
from django_statestore.services.sweep import sweep
from django_statestore.testing import age
from tests.celery.conftest import Broker, ended, wait_for
from tests.celery.durable_tasks import FAILING, PLAIN, WAITING, Errand

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]


def send_again(task: TaskHandle[Errand], times: int) -> None:
    for _ in range(times):
        assert dispatch.send(task.definition.store_alias, task.namespace, task.id)


def all_read(alias: str, names: tuple[str, ...], broker: Broker, folder: Errand) -> None:
    """Wait until the worker has read every message: two tasks that were started after them have ended."""
    for number in range(2):
        ended(PLAIN[alias].start(folder, task_id=f"marker-{number}", namespace=names))
    assert broker.messages() == []


def test_a_started_task_completes_by_its_message(alias: str, names: tuple[str, ...], errand: Errand) -> None:
    task = ended(PLAIN[alias].start(errand, namespace=names))
    assert errand.noted == ["first 1", "second 1"]
    assert task.checkpoint.attempt_count == 2


def test_a_start_inside_a_transaction_completes_after_the_commit(
    alias: str, names: tuple[str, ...], errand: Errand
) -> None:
    with transaction.atomic(using=alias):
        task = PLAIN[alias].start(errand, namespace=names)
    ended(task)
    assert errand.noted == ["first 1", "second 1"]


def test_a_long_task_is_handed_on_and_spends_no_attempt_on_it(
    alias: str, names: tuple[str, ...], errand: Errand, broker: Broker
) -> None:
    task = WAITING[alias].start(errand, task_id="long", namespace=names)
    wait_for(lambda: errand.noted == ["before 1", "middle 1"], "the worker is inside the step")
    time.sleep(0.1)  # the slice
    errand.let_go()
    assert ended(task).checkpoint.attempt_count == 3
    assert broker.read() == [[alias, list(names), "long"]] * 2


def test_a_message_that_comes_many_times_runs_no_step_twice(
    alias: str, names: tuple[str, ...], errand: Errand, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    task = WAITING[alias].start(errand, namespace=names)
    wait_for(lambda: errand.noted == ["before 1", "middle 1"], "the worker is inside the step")
    send_again(task, 6)
    all_read(alias, names, broker, Errand(str(tmp_path_factory.mktemp("markers"))))
    assert errand.noted == ["before 1", "middle 1"]
    errand.let_go()
    assert ended(task).checkpoint.attempt_count == 3
    send_again(task, 2)
    assert errand.noted == ["before 1", "middle 1", "after 1"]


def test_a_message_that_comes_again_cuts_no_back_off_short(
    alias: str,
    store: Store,
    names: tuple[str, ...],
    errand: Errand,
    broker: Broker,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    task = FAILING[alias].start(errand, namespace=names)
    wait_for(lambda: task.refresh().last_error, "the first attempt has failed")
    markers = Errand(str(tmp_path_factory.mktemp("markers")))
    send_again(task, 3)
    all_read(alias, names, broker, markers)
    assert errand.noted == ["fragile 1"]
    assert sweep(alias).notified == 0
    age(store, 3601)
    assert sweep(alias).notified == 1
    assert ended(task).checkpoint.attempt_count == 2
    assert errand.noted == ["fragile 1", "fragile 2"]
