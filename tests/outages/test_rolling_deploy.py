"""A new release takes the place of an old one under load: every task is ended by one that can, none is given up early.

Workers are replaced one after another while both releases start tasks. What is left of the old release when its last
worker is gone is carried over by an operator, or waits, parked as diverged, until such a worker is there again.
STATESTORE_LOAD is the number of tasks (default 120).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import child
from tests.outages.audit import REST, audit, ids, wait_until_rest
from tests.outages.labour import Project, carry_over, labour, let_go_on, parkings, start_all
from tests.outages.targets import Target
from tests.processes import Processes

OLD, NEW = "release_1", "release_2"
RAN_OLD, RAN_NEW = ["gather", "pay", "book", "tell"], ["gather", "check", "pay", "book", "inform"]
RAN_BOTH = ["gather", "pay", "book", "inform"]
"""What a task has run that was carried over behind its first step."""
WORKERS = 4
TASKS = int(os.environ.get("STATESTORE_LOAD", 120))
EARLY, FRESH, LATE = TASKS * 2 // 5, TASKS * 2 // 5, TASKS // 5
"""Tasks of the old release that are started during the deploy, of the new one, and of the old one after it."""
SECONDS = EARLY / 20
"""How long a deploy takes."""
GRACE = 5.0
SETTINGS = {"LEASE": 2, "SWEEP_EVERY": 0.5, "MISMATCH_GRACE": GRACE}
BOUND = 60 + TASKS / 5
"""Seconds after which a task that has not come to rest is taken to be stuck, on the slowest machine."""


def test_on_sqlite(children: Processes, namespace: str, tmp_path: Path) -> None:
    target = Target("sqlite", str(tmp_path / "rolling.sqlite3"))
    children.start(Target.migrate, target).result()
    rolled(target, children, namespace, tmp_path)


@pytest.mark.parametrize("server", ["postgres"], indirect=True)
def test_on_postgres(server: Any, target: Target, children: Processes, namespace: str, tmp_path: Path) -> None:
    rolled(target, children, namespace, tmp_path)


def rolled(target: Target, children: Processes, namespace: str, folder: Path) -> None:
    outside = folder / "outside"
    outside.mkdir()
    project = Project(target, namespace, outside, SETTINGS)
    office = children.start(operate, project)
    old = [children.start(labour, project, OLD) for _ in range(WORKERS)]
    new = [children.start(labour, project, NEW) for _ in range(WORKERS)]
    starting_old = children.start(start_all, project, OLD, "early", EARLY, SECONDS)
    starting_new = children.start(start_all, project, NEW, "fresh", FRESH, SECONDS)
    starting_late = children.start(start_all, project, OLD, "late", LATE, 0)
    back = children.start(labour, project, OLD)
    for each in (office, *old, *new, starting_old, starting_new, starting_late, back):
        each.expect("ready to", BOUND)

    for each in (*old, starting_old):
        each.go()
    logged = Counter[str]()
    for number, (leaving, coming) in enumerate(zip(old, new, strict=True)):
        time.sleep(SECONDS / WORKERS)
        coming.go()
        if number == 0:
            starting_new.go()
        elif number == WORKERS - 1:
            starting_old.result()
        leaving.go()
        logged += leaving.result()
    gone = time.time()
    starting_late.go()
    for each in (starting_new, starting_late):
        each.result()

    office.go()
    office.expect(REST, 2 * BOUND)
    given_up = parkings(outside)
    back.go()
    wrong, told = office.result(2 * BOUND)
    for worker in (back, *new):
        worker.go()
        logged += worker.result()
    print(f"{len(given_up)} parked,", told, logged)  # noqa: T201
    assert not wrong, "\n".join(wrong)
    check(given_up, gone)
    assert {each.task_id for each in given_up} >= {*ids("late", LATE)[1::2]}
    assert parkings(outside) == given_up


def operate(project: Project) -> tuple[list[str], str]:
    """Be an operator of the new release when no worker of the old one is left, and audit all in the end.

    Half of what is left is carried over. The rest waits until it is given up, which the parent is told, and then for
    an old worker that ends what is its own.
    """
    module = project.deploy(NEW)
    child.tell("ready to operate")
    child.wait()
    early, fresh, late = ids("early", EARLY), ids("fresh", FRESH), ids("late", LATE)
    chosen, total = [*early[::20], *late[::2]], EARLY + FRESH + LATE
    carried = carry_over(project, module.TASK, chosen)
    let_go_on(project, module.TASK, early[::10])
    left = wait_until_rest(project, total, BOUND, "diverged")
    child.tell(REST)
    left = left or wait_until_rest(project, total, BOUND)
    if left:
        return left, ""
    runs: dict[str, list[list[str]]] = {task_id: [RAN_OLD] for task_id in (*early, *late)}
    runs |= {task_id: [RAN_NEW] for task_id in (*fresh, *late[::2])}
    runs |= {task_id: [RAN_BOTH, RAN_NEW] for task_id in early[::20]}  # a slow deploy leaves some at their first step
    wrong, attempts = audit(project, module, runs)
    return wrong, f"{dict(carried)}, {attempts}"


def check(given_up: list[Any], gone: float) -> None:
    """Check that each task was parked by code that could not continue it, not too early, and while no other could."""
    assert {(each.revision, each.reason) for each in given_up} <= {("1", "diverged")}
    early = [each for each in given_up if each.at < gone]
    assert not early, f"{len(early)} were parked while a worker was there that knows them: {early[:5]}"
    hasty = [each for each in given_up if each.noted is not None and each.at < each.noted + GRACE]
    assert not hasty, f"{len(hasty)} were parked before the grace was over: {hasty[:5]}"
