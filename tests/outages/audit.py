"""The audit of a load of tasks: what its rows say, against what was seen outside."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

from django.db import Error

from django_statestore import stores
from django_statestore.contracts.taskrecord import TaskRecord
from django_statestore.exceptions import StoreUnavailable
from django_statestore.models import Task
from django_statestore.services import inspect
from tests import child
from tests.crash.ledger import Ledger
from tests.outages.labour import Project, patiently
from tests.outages.outside import PAID, rows_paid
from tests.outages.targets import ALIAS

T = TypeVar("T")

Runs: TypeAlias = Mapping[str, Sequence[Sequence[str]]]
"""What each task may have run."""


def ids(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number:04}" for number in range(count)]


def wait_until_rest(project: Project, count: int, seconds: float, parked: str = "") -> list[str]:
    """Wait until so many tasks are there and have ended, or are ``parked`` for that reason; return those that are not.

    A server that is away meanwhile costs time and nothing else.
    """
    namespace = stores[ALIAS].namespace(project.namespace).durable.entry("any").namespace
    give_up, tally = time.monotonic() + seconds, Counter[str]()
    tasks = Task.objects.using(ALIAS).filter(namespace=namespace)

    def look() -> tuple[int, list[str]]:
        moving = tasks.exclude(status__in=("completed", "cancelled"))
        moving = moving.exclude(reason=parked) if parked else moving
        return tasks.count(), [shown(row) for row in moving.values(*_SHOWN)]

    while True:
        number, left = patiently(lambda: _asked(project, look), tally)
        if number == count and not left:
            return []
        if time.monotonic() > give_up:
            return [f"{number} of {count} tasks are there", *left]
        time.sleep(0.2)


_SHOWN = (
    "key", "revision", "status", "reason", "step_index", "attempts", "max_attempts", "claims", "worker", "wake_at",
    "resume_at", "mismatch_since", "last_error",
)  # fmt: skip


def shown(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items())


def _asked(project: Project, look: Callable[[], T]) -> T:
    """Look by the ORM, once the store has made sure of the connection."""
    project.engine.tasks_open(0, 1).run()
    try:
        return look()
    except Error as error:
        raise StoreUnavailable("the look at the tasks failed") from error


REST = "no task moves any more"


def keep(project: Project, release: str, expected: Runs, seconds: float) -> tuple[list[str], str]:
    """Wait until all those tasks have ended, tell the parent, and audit them when it says `go`."""
    module = project.deploy(release)
    child.tell("ready to keep")
    left = wait_until_rest(project, len(expected), seconds)
    child.tell(REST)
    child.wait()
    return (left, "") if left else audit(project, module, expected)


def audit(project: Project, module: Any, expected: Runs) -> tuple[list[str], str]:
    """Return what is wrong with tasks that have ended, and how many attempts they took for how many entries.

    Everything is judged by the rows, and by what was seen outside.
    """
    paid, listed = Counter(rows_paid(ALIAS, project.namespace)), Counter(_listed(project))
    wrong, attempts, entries = list[str](), 0, 0
    if strange := (paid.keys() | listed.keys()) - expected.keys():
        wrong.append(f"paid, and nobody knows the task: {strange}")
    for task_id, runs in expected.items():
        record = project.read(task_id)
        if record is None:
            wrong.append(f"{task_id}: it was acknowledged and is not there")
            continue
        ledger = module.TASK.app.ledger(task_id)
        found = [*_record(record, runs), *_ledger(ledger, record), *_history(project, record)]
        if (paid[task_id], listed[task_id]) != (1, 1):
            found.append(f"the atomic step has made {paid[task_id]} rows and {listed[task_id]} items")
        wrong += [f"{task_id}: {text}" for text in found]
        attempts += record.attempts
        entries += len(ledger.lines("entered"))
    return wrong, f"{attempts} attempts for {entries} entries"


def _listed(project: Project) -> Iterator[str]:
    numbered = stores[ALIAS].namespace(project.namespace).list
    yield from numbered.range(PAID)


def _record(record: TaskRecord, runs: Sequence[Sequence[str]]) -> Iterator[str]:
    if (record.status, record.reason) != ("completed", ""):
        yield f"{record.status} {record.reason} {record.last_error}"
        return
    ran = json.loads(record.state or "null")["ran"]
    if ran not in [list(run) for run in runs]:
        yield f"it ran {ran}"
    if record.worker or record.wake_at or record.claims or record.mismatch_since:
        yield f"it has ended and looks as if it had not: {record}"
    if not len(ran) <= record.attempts <= record.max_attempts:
        yield f"{record.attempts} attempts for {len(ran)} steps, {record.max_attempts} are allowed"


def _ledger(ledger: Ledger, record: TaskRecord) -> Iterator[str]:
    entered = ledger.lines("entered")
    if len(entered) > record.attempts:
        yield f"it was entered {len(entered)} times with {record.attempts} attempts"
    if len(ledger.lines("effect")) != 1:
        yield f"the effect of the reconcile step happened {len(ledger.lines('effect'))} times"
    if any(int(before.detail) > int(after.detail) for before, after in pairwise(entered)):
        yield f"a worker entered a step after another had taken over: {entered}"
    begun = False
    for line in ledger.lines():
        if line.what == "entered" and line.step == "book":
            if begun:
                yield "the reconcile step was entered again without being asked"
            begun = True
        elif line.what == "asked" and line.detail == "not done":
            begun = False


def _history(project: Project, record: TaskRecord) -> Iterator[str]:
    store = stores[ALIAS].namespace(project.namespace)
    saves = inspect.history(store, record.key)
    if [save.save for save in saves] != list(range(record.save_seq + 1)):
        yield f"the kept saves are {[save.save for save in saves]}, the newest is {record.save_seq}"
    steps = [save for save in saves if save.step and save.outcome not in ("started", "migrated")]
    if any(before.attempts >= after.attempts for before, after in pairwise(steps)):
        yield f"a step was saved without an attempt: {saves}"
    if len(inspect.items(store, record.key, "log")) != 1:
        yield f"its journal has {inspect.items(store, record.key, 'log')}"
