"""Workers on the test databases, and a look into the broker's folder."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connections

from django_statestore import Store
from django_statestore.durable import TaskHandle, dispatch
from testproject.demo.processes import Processes
from tests.celery.durable_tasks import Errand
from tests.processes import environment

SECONDS = 30.0
"""How long a worker may take for what these tests wait for."""


def wait_for(condition: Callable[[], Any], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"after {SECONDS} seconds still not: {what}"
        time.sleep(0.02)


def ended(task: TaskHandle[Errand], status: str = "completed") -> TaskHandle[Errand]:
    """Wait for the end of a task, and return it then."""
    wait_for(lambda: task.refresh().status == status, f"{task.id} is {status}")
    return task.refresh()


class Broker:
    """The messages that wait to be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "messages"

    @contextmanager
    def away(self) -> Iterator[None]:
        """Take the broker down for as long as the block: its folder is a file."""
        hidden = self.folder.with_name("hidden")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.rename(hidden)
        self.folder.touch()
        try:
            yield
        finally:
            self.folder.unlink()
            hidden.rename(self.folder)

    def messages(self, queue: str = "celery") -> list[list[Any]]:
        """Return the arguments of each message in a queue, the oldest first."""
        return [_arguments(path) for path in sorted(self.folder.glob(f"*.{queue}.msg"))]

    def read(self) -> list[list[Any]]:
        """Return the arguments of each message that a worker has read."""
        return [_arguments(path) for path in self.folder.with_name("processed").glob("*.msg")]


def _arguments(message: Path) -> list[Any]:
    body = json.loads(message.read_text())["body"]
    arguments: list[Any] = json.loads(base64.b64decode(body))[0]
    return arguments


@pytest.fixture
def broker() -> Broker:
    """Return the broker, empty, and with no failure remembered."""
    dispatch.try_again()
    folder = Path(django_settings.BROKER)
    for path in folder.glob("*/*.msg"):
        path.unlink(missing_ok=True)
    return Broker(folder)


@pytest.fixture
def errand(tmp_path: Path) -> Errand:
    return Errand(str(tmp_path))


def worker_environment(**behaviour: Any) -> dict[str, str]:
    """Return the environment of a worker on the test databases, with STATESTORE as given."""
    return environment() | {
        "DJANGO_SETTINGS_MODULE": "tests.celery.settings",
        "STATESTORE_TEST_SETTINGS": json.dumps(behaviour),
    }


@pytest.fixture
def workers(broker: Broker, tmp_path: Path) -> Iterator[Processes]:
    """Start workers and beat with a sweep every second; none outlives the test."""
    with Processes(tmp_path / "celery.log", worker_environment(SWEEP_EVERY=1)) as processes:
        yield processes


@pytest.fixture(scope="module")
def worker(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have one worker for the tests of a module; what takes longer than a moment it hands on by another message."""
    with django_db_blocker.unblock():
        variables = worker_environment(RUN_SLICE=0.1)
        for connection in connections.all():
            connection.close()
    with Processes(tmp_path_factory.mktemp("worker") / "celery.log", variables) as processes:
        processes.worker()
        yield


@pytest.fixture
def names(store: Store) -> tuple[str, ...]:
    """Return a namespace that no other test uses."""
    return store.names
