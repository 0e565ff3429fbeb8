"""Journeys with a worker that is killed on the way, and their continuation by another."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from django.db import connections

from django_statestore import stores
from django_statestore.durable import TaskHandle
from django_statestore.testing import CrashPoints, age
from tests.crash.forks import LEASE, configure, die, fork, spawn
from tests.crash.journey import JOURNEYS, START, Trip
from tests.crash.ledger import Ledger, Outside
from tests.crash.reports import reporting


def travel(
    alias: str, namespace: str, ledger: Ledger, points: CrashPoints, *, aged: float = 0, watched: bool = True
) -> TaskHandle[Trip]:
    """Start the task or find it started, and drive it to its end; its id is the name of its ledger.

    ``watched`` makes every statement a point; they then go through Django's cursor, else over the driver's own.
    """
    store, journey, task_id = stores[alias].namespace(namespace), JOURNEYS[alias], ledger.path.name
    if aged:
        age(store, aged)
    with points if watched else nullcontext(), reporting(store, ledger):
        journey.start(START, task_id=task_id, namespace=[namespace])
        handle = journey.run(task_id, namespace=[namespace], app=Outside(ledger, points))
        points.here("the worker has returned")
    return handle


def points_of(alias: str, namespace: str, ledger: Ledger, *, aged: float = 0) -> list[str]:
    """Travel without dying and return the points that were passed.

    This process itself does, so that its forks find everything imported and prepared.
    """
    points = CrashPoints()
    travel(alias, namespace, ledger, points, aged=aged)
    connections.close_all()
    return points.passed


def kill_everywhere(alias: str, namespace: str, folder: Path) -> list[str]:
    """Let one worker die at each point of a journey of its own; return the points."""
    configure()
    names = points_of(alias, namespace, Ledger(folder / "whole"))
    for number, name in enumerate(names):
        ledger = Ledger(folder / f"killed-{number}")
        die(lambda: travel(alias, namespace, ledger, CrashPoints(number)), name)  # noqa: B023
    return names


def kill_twice(alias: str, folder: Path) -> list[tuple[str, str, str]]:
    """Let a worker die inside a step, and its successor at each point until it has left that step behind.

    Return the namespace (a journey each, for time passes in a whole namespace) and the two points of every pair.
    """
    configure()
    pairs = []
    for first, name in enumerate(points_of(alias, f"{folder.name}-whole", Ledger(folder / "whole"))):
        place, inside, _ = name.partition(": it")
        if not inside or "turn 1" not in place or "come_home" in place:
            continue
        probe = f"{folder.name}-{first}"
        die(lambda: travel(alias, probe, Ledger(folder / probe), CrashPoints(first)), name)  # noqa: B023
        again = points_of(alias, probe, Ledger(folder / probe), aged=LEASE)
        beyond = next(number for number, point in enumerate(again) if point.startswith("inside") and place not in point)
        for second, after in enumerate(again[: beyond + 1]):
            pairs.append((f"{probe}-{second}", name, after))
            kill_pair(alias, Ledger(folder / pairs[-1][0]), first, second)
    return pairs


def kill_pair(alias: str, ledger: Ledger, first: int, second: int) -> None:
    namespace = ledger.path.name
    die(lambda: travel(alias, namespace, ledger, CrashPoints(first)), f"point {first}")
    die(lambda: travel(alias, namespace, ledger, CrashPoints(second), aged=LEASE), f"point {first}, then {second}")


def kill_anytime(alias: str, folder: Path, journeys: int, deaths: int) -> tuple[list[str], int]:
    """Let workers die at random moments; return the namespaces and how many died before they were done."""

    def go(namespace: str, aged: float) -> None:
        travel(alias, namespace, Ledger(folder / namespace), CrashPoints(), aged=aged, watched=False)

    configure()
    points_of(alias, f"{folder.name}-whole", Ledger(folder / "whole"))
    return die_anytime(go, folder.name, journeys, deaths)


def die_anytime(go: Callable[[str, float], None], prefix: str, count: int, deaths: int) -> tuple[list[str], int]:
    """Do `go(namespace, aged)` so often in forks that are killed at random moments."""
    started = time.monotonic()
    fork(lambda: go(f"{prefix}-fork", 0))
    longest = time.monotonic() - started
    namespaces, died = [f"{prefix}-{number}" for number in range(count)], 0
    for namespace in namespaces:
        for _ in range(deaths):
            pid = spawn(lambda: go(namespace, LEASE))  # noqa: B023
            time.sleep(random.uniform(0, longest))
            os.kill(pid, signal.SIGKILL)
            killed = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
            died += killed
            longest *= 1.1 if killed else 0.7  # how long a journey takes changes with what else the machine does
            if not killed:
                break
    return namespaces, died
