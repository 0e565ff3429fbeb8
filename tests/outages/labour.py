"""The processes of a project under load: workers, those who start tasks, and an operator. Each has one release."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from django.test import override_settings

from django_statestore import signals, stores
from django_statestore.contracts.taskrecord import TaskRecord
from django_statestore.contracts.tasks import TaskPrimitives
from django_statestore.durable import DurableTask
from django_statestore.durable.task import engine_of
from django_statestore.exceptions import OutcomeUnknown, StoreUnavailable, TaskBusy, TaskFinished
from django_statestore.services.work import Worker
from tests import child
from tests.aliases import DATABASE
from tests.outages.outside import Outside
from tests.outages.targets import ALIAS, Target

T = TypeVar("T")

POLL = 0.05
PARKED = "parked"
"""The file that tells of every task that was parked; no task has that id."""


@dataclass(frozen=True)
class Project:
    """Where a load goes on: the server, the namespace of its tasks, and the folder of what they leave outside."""

    target: Target
    namespace: str
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    longest: float = 0.02

    def deploy(self, release: str) -> Any:
        """Let this process be one of a release; return its module, with ``TASK`` and ``first``."""
        self.target.store()  # defines the alias of the database
        override_settings(
            STATESTORES={ALIAS: {"BACKEND": DATABASE, "OPTIONS": {"database": ALIAS}}},
            STATESTORE={"HINTS": False, **self.settings},
        ).enable()
        module = importlib.import_module(f"tests.outages.{release}")
        module.TASK.app = Outside(self.folder, self.longest)
        module.TASK.seal()
        return module

    @property
    def engine(self) -> TaskPrimitives:
        return engine_of(stores[ALIAS])

    def read(self, task_id: str) -> TaskRecord | None:
        return self.engine.task_read(stores[ALIAS].namespace(self.namespace).durable.entry(task_id)).run()


def patiently(work: Callable[[], T], tally: Counter[str]) -> T:
    """Do what may be done twice until the store answers."""
    while True:
        try:
            return work()
        except (StoreUnavailable, OutcomeUnknown) as error:
            tally[type(error).__name__] += 1
            time.sleep(0.02)


# -- a worker ---------------------------------------------------------------------------------------------------------


class Told(logging.Handler):
    """Count what is logged, by its text."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        self.counts[f"{event} {getattr(record, 'step', '')}" if event else record.getMessage()] += 1


def labour(project: Project, release: str) -> Counter[str]:
    """Be a worker from one `go` of the parent to the next, and return what was logged meanwhile."""
    project.deploy(release)
    told, stop = Told(), threading.Event()
    logger = logging.getLogger("django_statestore")
    logger.addHandler(told)
    logger.propagate = False

    def note(sender: object, task_id: str, reason: str, revision: str, **more: Any) -> None:
        row = project.read(task_id)
        noted = row.mismatch_since.timestamp() if row and row.mismatch_since else None
        _write(project.folder / PARKED, [time.time(), task_id, revision, reason, noted])

    signals.task_parked.connect(note)

    def listen() -> None:
        child.wait()
        stop.set()

    child.tell("ready to work")
    child.wait()
    threading.Thread(target=listen, daemon=True).start()
    Worker(ALIAS, stop.is_set, stop.wait).run(POLL)
    return told.counts


def _write(path: Path, line: list[Any]) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{json.dumps(line)}\n".encode())
    os.close(file)


@dataclass(frozen=True)
class Parking:
    """A task that was parked, when, and since when code for it had been missed (epoch seconds)."""

    at: float
    task_id: str
    revision: str
    reason: str
    noted: float | None


def parkings(folder: Path) -> list[Parking]:
    """Return all that were told of so far."""
    path = folder / PARKED
    lines = path.read_text().splitlines() if path.exists() else []
    return [Parking(*json.loads(line)) for line in lines]


# -- those who start tasks --------------------------------------------------------------------------------------------


def start_all(project: Project, release: str, prefix: str, count: int, seconds: float) -> Counter[str]:
    """Start so many tasks in so many seconds, or as fast as it goes, when the parent says `go`."""
    module, tally = project.deploy(release), Counter[str]()
    child.tell("ready to start")
    child.wait()
    started = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, started + number * seconds / count - time.monotonic()))
        start(project, module, f"{prefix}-{number:04}", number, tally)
    return tally


def start(project: Project, module: Any, task_id: str, number: int, tally: Counter[str]) -> None:
    """Start a task, again and again with the same id, until that is acknowledged."""
    task: DurableTask[Any] = module.TASK
    patiently(lambda: task.start(module.first(number), task_id=task_id, namespace=[project.namespace]), tally)
    tally["started"] += 1


# -- an operator ------------------------------------------------------------------------------------------------------


def carry_over(project: Project, task: DurableTask[Any], wanted: list[str]) -> Counter[str]:
    """Migrate the tasks of those ids to this release, whatever they stand at and whoever is at them."""
    left, tally = list(wanted), Counter[str]()
    while left:
        task_id = left.pop(random.randrange(len(left)))
        try:
            moved = task.get(task_id, namespace=[project.namespace]).migrate(sender="operator")
            tally[f"carried over at {moved.step}, {'waiting' if moved.waiting else moved.status}"] += 1
        except TaskFinished:
            tally["finished"] += 1
        except TaskBusy:
            tally["busy"] += 1
            left.append(task_id)
            time.sleep(0.05)
    return tally


def let_go_on(project: Project, task: DurableTask[Any], wanted: list[str]) -> None:
    """Send the tasks of those ids the signal for which some of them wait."""
    for task_id in wanted:
        with contextlib.suppress(TaskFinished):
            task.signal(task_id, "go on", namespace=[project.namespace])
