"""Deaths that come again and again, and deaths in the thread that renews. Run in a child that forks them."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from django.db import connections

from django_statestore import stores
from django_statestore.durable import StepContext
from django_statestore.testing import CrashPoints, age
from tests.crash.forks import LEASE, configure, die
from tests.crash.journey import START
from tests.crash.ledger import Ledger
from tests.crash.scripted import FRAIL, SCRIPTED, WIDE, Script

TASKS = {"call": WIDE, "seal": WIDE, "close": WIDE, "frail": FRAIL}
"""The tasks of these steps; all others belong to `SCRIPTED`."""


def die_here(ctx: StepContext) -> None:
    CrashPoints(0).here("the end of this process")


def die_in_loops(alias: str, folder: Path, loops: dict[str, int]) -> dict[str, list[tuple[int, int]]]:
    """Let workers die so many times at each place; return attempts and claims after each death there."""
    configure()
    return {where: die_in(alias, folder.name, Ledger(folder / where), count) for where, count in loops.items()}


def die_in(alias: str, namespace: str, ledger: Ledger, count: int) -> list[tuple[int, int]]:
    """Let workers die in a step, or in the `reconcile` of one, as the name of the ledger and the task says."""
    where, namespace = ledger.path.name, f"{namespace}-{ledger.path.name}"
    task, store, counted = TASKS.get(where, SCRIPTED)[alias], stores[alias].namespace(namespace), []
    task.start(START, task_id="t", namespace=[namespace])
    if where == "close":
        task.signal("t", "go", namespace=[namespace])

    def noted(what: str, dies: bool = False) -> Callable[[StepContext], bool]:
        def note(ctx: StepContext) -> bool:
            ledger.write(what)
            if dies or what == where:
                die_here(ctx)
            return False

        return note

    script = Script(on={step.name: noted(step.name) for step in task.steps}, asked=noted("reconcile"))
    if where == "reconcile":  # somebody must have died in the step before
        first = Script(on={"begin": noted("begin"), "act": noted("act", dies=True)})
        connections.close_all()
        die(lambda: task.run("t", namespace=[namespace], app=first), "act")
        age(store, LEASE)
    for _ in range(count):
        connections.close_all()
        die(lambda: task.run("t", namespace=[namespace], app=script), where)
        record = task.get("t", namespace=[namespace]).record
        counted.append((record.attempts, record.claims))
        age(store, LEASE)
    connections.close_all()
    return counted


def die_renewing(alias: str, namespace: str, points: int) -> None:
    """Let workers die at points of their renewals, a task each, while a step runs."""
    configure(LEASE=0.3)
    task = SCRIPTED[alias]

    def long(ctx: StepContext) -> None:
        ctx.progress(0.5, "half")
        time.sleep(10)

    def run(number: int, task_id: str) -> None:
        with CrashPoints(number, where=lambda name: threading.current_thread().name == "statestore-renewer"):
            task.run(task_id, namespace=[namespace], app=Script(on={"begin": long}))

    for number in range(points):
        connections.close_all()
        die(lambda: run(number, f"{number}"), f"renewal {number}")  # noqa: B023
