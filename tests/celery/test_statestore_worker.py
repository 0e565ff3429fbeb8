"""``manage.py statestore_worker``, as a real process: the same job without Celery."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from django.db import connections

from django_statestore import Store
from django_statestore.services.work import Worker
from django_statestore.testing import age
from tests.celery.conftest import SECONDS, ended, wait_for, worker_environment
from tests.celery.durable_tasks import FAILING, PLAIN, WAITING, Errand
from tests.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_worker(settings: object) -> Iterator[Start]:
    """Start the command with options; it does not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "statestore_worker", "--poll=0.05", *options],
            cwd=ROOT,
            env=worker_environment(HINTS=False),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def no_hints(settings: object) -> None:
    settings.STATESTORE = {"HINTS": False}  # type: ignore[attr-defined]


def test_it_drives_tasks_to_their_end(alias: str, names: tuple[str, ...], errand: Errand, start_worker: Start) -> None:
    task = PLAIN[alias].start(errand, namespace=names)
    worker = start_worker(f"--store={alias}")
    assert ended(task).checkpoint.attempt_count == 2
    assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    output, _ = worker.communicate(timeout=SECONDS)
    assert worker.returncode == 0, output
    assert "waiting for durable tasks" in output


def test_sigterm_saves_the_step_at_hand_and_enters_no_other(
    alias: str, names: tuple[str, ...], errand: Errand, start_worker: Start
) -> None:
    task = WAITING[alias].start(errand, namespace=names)
    worker = start_worker()
    wait_for(lambda: errand.noted == ["before 1", "middle 1"], "the worker is inside the step")
    worker.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(0.3)
    errand.let_go()
    output, _ = worker.communicate(timeout=SECONDS)
    assert worker.returncode == 0, output
    record = task.refresh().record
    assert (record.status, record.step_index, record.attempts, record.worker) == ("ready", 2, 2, "")
    assert record.due
    output, _ = start_worker("--until-idle").communicate(timeout=SECONDS)
    assert ended(task).checkpoint.attempt_count == 3, output
    assert errand.noted == ["before 1", "middle 1", "after 1"]


@pytest.mark.parametrize("alias", ["default"])
def test_a_second_signal_ends_it_at_once(
    alias: str, store: Store, names: tuple[str, ...], errand: Errand, start_worker: Start
) -> None:
    task = WAITING[alias].start(errand, namespace=names)
    worker = start_worker()
    wait_for(lambda: errand.noted == ["before 1", "middle 1"], "the worker is inside the step")
    worker.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(0.3)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(SECONDS) == -signal.SIGTERM
    errand.let_go()
    age(store, 61)
    start_worker("--until-idle").communicate(timeout=SECONDS)
    assert ended(task).checkpoint.attempt_count == 4
    assert errand.noted == ["before 1", "middle 1", "middle 2", "after 1"]


def test_until_idle_ends_when_nothing_is_due(
    alias: str, store: Store, names: tuple[str, ...], errand: Errand, start_worker: Start
) -> None:
    tasks = [PLAIN[alias].start(errand, task_id=f"t{number}", namespace=names) for number in range(25)]
    later = FAILING[alias].start(errand, task_id="later", namespace=names)
    worker = start_worker("--until-idle")
    output, _ = worker.communicate(timeout=SECONDS)
    assert worker.returncode == 0, output
    assert {task.refresh().status for task in tasks} == {"completed"}
    assert later.refresh().status == "running", "its back-off is not over"
    age(store, 3601)
    start_worker("--until-idle").communicate(timeout=SECONDS)
    assert later.refresh().status == "completed"


def test_it_outlives_an_outage_of_the_database(
    alias: str, names: tuple[str, ...], errand: Errand, caplog: pytest.LogCaptureFixture
) -> None:
    task = PLAIN[alias].start(errand, namespace=names)
    database, rests = connections[alias], []
    right = database.settings_dict

    def rest(seconds: float) -> None:
        database.close()
        database.settings_dict = right
        rests.append(seconds)

    database.close()
    database.settings_dict = right | {"NAME": "/nowhere/to/be/found"}
    try:
        Worker(alias, lambda: len(rests) == 2, rest).run(0.5)
    finally:
        rest(0)
    assert task.refresh().status == "completed"
    assert "the due tasks could not be read" in caplog.text


def test_an_unknown_store_is_refused_in_one_line(start_worker: Start) -> None:
    output, _ = start_worker("--store=nowhere").communicate(timeout=SECONDS)
    assert output.strip().startswith("CommandError: there is no store 'nowhere'")
