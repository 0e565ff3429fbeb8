"""Eight workers on the same due tasks: exactly one enters a step. Eight that start one id: there is one task."""

import uuid
from collections import Counter
from pathlib import Path

from django.conf import settings
from django.db import connections

from django_statestore import stores
from django_statestore.durable import StepContext
from django_statestore.durable.task import engine_of
from django_statestore.exceptions import LeaseLost, TaskBusy, TaskExists
from django_statestore.testing import age
from tests.crash.journey import START, Trip
from tests.crash.ledger import Ledger
from tests.crash.nursery import LEASE, configure
from tests.crash.scripted import SCRIPT_END, SCRIPTED, Script
from tests.processes import Processes

WORKERS = 8
TASKS = 300
STARTS = 300


def race_for_tasks(number: int, alias: str, namespace: str, ids: list[str], ledger: Ledger) -> Counter[str]:
    """Try to drive each task; return how that went."""
    configure()
    seen: Counter[str] = Counter()
    task, tasks = SCRIPTED[alias], engine_of(stores[alias])
    for id in ids:

        def enter(ctx: StepContext) -> None:
            ledger.write("entered", ctx.step, number, ctx.task_id)

        try:
            handle = task.run(id, namespace=[namespace], app=Script(on={name: enter for name in ("begin", "act", "end")}))
            seen[handle.status] += 1
        except TaskBusy:
            seen["busy"] += 1
    del tasks
    connections.close_all()
    return seen


def test_one_of_many_workers_enters(processes: Processes, alias: str, tmp_path: Path) -> None:
    pass
