"""A worker is killed inside a step, and another goes on; the message died with the first, so the sweep sends one."""

import pytest

from django_statestore import Store
from django_statestore.services.sweep import sweep
from django_statestore.testing import age
from testproject.demo.processes import Processes, group_is_left
from tests.celery.conftest import Broker, ended, wait_for
from tests.celery.durable_tasks import WAITING, Errand

pytestmark = pytest.mark.django_db(transaction=True)


def kill_inside_a_step(alias: str, names: tuple[str, ...], errand: Errand, workers: Processes) -> None:
    worker = workers.worker()
    WAITING[alias].start(errand, task_id="t", namespace=names)
    wait_for(lambda: errand.noted == ["before 1", "middle 1"], "the worker is inside the step")
    worker.kill()
    assert not group_is_left(worker.pid)
    errand.let_go()


def test_a_sweep_resumes_what_a_killed_worker_left(
    alias: str, store: Store, names: tuple[str, ...], errand: Errand, workers: Processes, broker: Broker
) -> None:
    kill_inside_a_step(alias, names, errand, workers)
    task = WAITING[alias].get("t", namespace=names)
    assert (task.status, task.step, task.record.leased) == ("running", "middle", True)
    assert sweep(alias).notified == 0, "a living lease is not swept"
    age(store, 61)
    assert sweep(alias).notified == 1
    assert broker.messages() == [[alias, list(names), "t"]]
    workers.worker()
    assert ended(task).checkpoint.attempt_count == 4
    assert errand.noted == ["before 1", "middle 1", "middle 2", "after 1"]
    assert errand.pids[1] != errand.pids[2] == errand.pids[3]


@pytest.mark.parametrize("alias", ["default"])
def test_beat_resumes_what_a_killed_worker_left(
    alias: str, store: Store, names: tuple[str, ...], errand: Errand, workers: Processes
) -> None:
    kill_inside_a_step(alias, names, errand, workers)
    age(store, 61)
    workers.worker()
    workers.beat()
    assert ended(WAITING[alias].get("t", namespace=names)).checkpoint.attempt_count == 4
    assert errand.noted == ["before 1", "middle 1", "middle 2", "after 1"]
