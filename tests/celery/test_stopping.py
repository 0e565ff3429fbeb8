"""A worker that is told to stop saves the open step, enters no other, and hands the task on at once."""

import pytest

from django_statestore.durable import TaskHandle
from testproject.demo.processes import Process, Processes
from tests.celery.conftest import Broker, ended, wait_for
from tests.celery.durable_tasks import WAITING, Errand

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.parametrize("alias", ["default"])]


def start(alias: str, names: tuple[str, ...], errand: Errand, id: str) -> TaskHandle[Errand]:
    return WAITING[alias].start(errand, task_id=id, namespace=names)


def stop_inside_a_step(worker: Process, workers: Processes, errand: Errand) -> None:
    """Send SIGTERM while the second step waits, let that go on, and wait for the end of the worker."""
    wait_for(lambda: errand.noted == ["before 1", "middle 1"], "the worker is inside the step")
    worker.ask_to_stop()
    wait_for(lambda: b"Warm shutdown" in workers.log.read_bytes(), "the worker was told to stop")
    errand.let_go()
    wait_for(lambda: worker.status is not None, "the worker has ended")
    assert worker.status == 0, workers.log.read_text()


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_the_open_step_is_saved_and_another_worker_goes_on(
    alias: str, names: tuple[str, ...], errand: Errand, workers: Processes, broker: Broker, pool: str
) -> None:
    worker = workers.worker(f"--pool={pool}")
    task = start(alias, names, errand, "t")
    stop_inside_a_step(worker, workers, errand)
    record = task.refresh().record
    assert (record.status, record.step_index, record.attempts, record.worker) == ("ready", 2, 2, "")
    assert record.due
    assert broker.messages() == [[alias, list(names), "t"]]
    workers.worker()
    assert ended(task).checkpoint.attempt_count == 3
    assert errand.noted == ["before 1", "middle 1", "after 1"]


def test_messages_that_it_holds_are_handed_on_unopened(
    alias: str, names: tuple[str, ...], errand: Errand, workers: Processes, broker: Broker
) -> None:
    worker = workers.worker("--pool=threads", "--concurrency=1")
    tasks = [start(alias, names, errand, "t0")]
    wait_for(lambda: errand.noted, "the worker is inside the first task")
    tasks += [start(alias, names, errand, f"t{number}") for number in (1, 2)]
    wait_for(lambda: len(broker.read()) == 3, "the worker holds the messages of the others")
    stop_inside_a_step(worker, workers, errand)
    assert [task.refresh().record.attempts for task in tasks] == [2, 0, 0]
    assert {message[2] for message in broker.messages()} == {"t0", "t1", "t2"}
    workers.worker()
    assert [ended(task).checkpoint.attempt_count for task in tasks] == [3, 3, 3]
