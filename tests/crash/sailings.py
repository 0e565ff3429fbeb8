"""Stories that are lived through with workers that are killed on the way; each in a namespace of its own."""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_statestore import stores
from django_statestore.durable import TaskHandle
from django_statestore.durable import points as engine_points
from django_statestore.testing import CrashPoints, age
from tests.crash.forks import LEASE, configure, die
from tests.crash.journey import START, Trip
from tests.crash.ledger import Ledger, Outside
from tests.crash.reports import reporting
from tests.crash.travels import die_anytime
from tests.crash.voyage import REST, STORIES, Story


class Points(CrashPoints):
    """Crash points that stand inside each COMMIT too, and where the engine names points of its own.

    Of what lies between two statements they count one point, after the first and before the second: for a death there
    is nothing between the two, but what the worker has been told. Nor does BEGIN change anything.
    """

    def __init__(self, kill_at: int | None = None) -> None:
        super().__init__(kill_at, where=lambda name: not name.startswith(("after: ", "before: BEGIN")))

    def __enter__(self) -> "Points":
        super().__enter__()
        engine_points.watchers.append(self._reached)
        self._commit = BaseDatabaseWrapper._commit  # type: ignore[attr-defined]
        BaseDatabaseWrapper._commit = self._committing  # type: ignore[attr-defined]
        return self

    def __exit__(self, *args: object) -> None:
        BaseDatabaseWrapper._commit = self._commit  # type: ignore[attr-defined]
        engine_points.watchers.remove(self._reached)
        super().__exit__(*args)  # type: ignore[arg-type]

    def _reached(self, point: str, step: str) -> None:
        self.here(f"{step}: {point}")

    @property
    def _committing(self) -> Callable[[BaseDatabaseWrapper], None]:
        def commit(connection: BaseDatabaseWrapper) -> None:
            if len(self.passed) == self._kill_at:
                _begin_to_commit(connection)
            self.here("in COMMIT")
            self._commit(connection)

        return commit


def _begin_to_commit(connection: BaseDatabaseWrapper) -> None:
    """Send COMMIT and wait for no answer; on SQLite, where nothing is sent, be killed at some moment of it."""
    if connection.vendor == "postgresql":
        driver = connection.connection.pgconn
        driver.send_query(b"commit")
        driver.flush()
        return

    def kill() -> None:
        time.sleep(random.uniform(0, 0.0005))
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill).start()
    connection.connection.commit()


def sail(
    story: str,
    alias: str,
    namespace: str,
    ledger: Ledger,
    points: CrashPoints,
    *,
    aged: float = 0,
    phase: Callable[[], contextlib.AbstractContextManager[object]] | None = None,
) -> TaskHandle[Trip]:
    """Start the task or find it started, send its signals, let time pass, and drive it to its end.

    Its id is the name of its ledger. ``points`` count in all that is done by the engine, and not in what lets time
    pass. ``phase`` is entered instead, each time, where it is given.
    """
    told: Story = STORIES[story]
    task, store, names, task_id = told.tasks[alias], stores[alias].namespace(namespace), [namespace], ledger.path.name
    within = phase or (lambda: points)
    if aged:
        age(store, aged)
    with reporting(store, ledger):
        with within():
            handle = task.start(START, task_id=task_id, namespace=names)
        for name, payload in told.early.items():
            with within():
                if not handle.record.finished:
                    task.signal(task_id, name, payload, key=name, namespace=names)
        while True:
            with within():
                points.here("the worker begins")
                handle = task.run(task_id, namespace=names, app=Outside(ledger, points))
                points.here("the worker has returned")
            if handle.record.finished:
                return handle
            assert not handle.parked, handle.reason
            waiting = handle.waiting.name if handle.waiting else ""
            if waiting in told.late:
                key = waiting if told.keyed else None
                with within():
                    task.signal(task_id, waiting, told.late[waiting], key=key, namespace=names)
                    points.here("the signal was sent")
            else:
                age(store, REST)


def points_of(story: str, alias: str, namespace: str, ledger: Ledger, *, aged: float = 0) -> list[str]:
    """Sail without dying and return the points that were passed; it prepares this process for its forks too."""
    points = Points()
    sail(story, alias, namespace, ledger, points, aged=aged)
    connections.close_all()
    return points.passed


def sink_everywhere(story: str, alias: str, folder: Path) -> list[str]:
    """Let one worker die at each point of a voyage of its own; return the points."""
    configure()
    names = points_of(story, alias, f"{folder.name}-whole", Ledger(folder / "whole"))
    for number, name in enumerate(names):
        namespace = f"{folder.name}-{number}"
        die(lambda: sail(story, alias, namespace, Ledger(folder / namespace), Points(number)), name)  # noqa: B023
    return names


INTERRUPTED = [
    ("voyage", "ask", 1, "inside ask, turn 1: call 1 has returned"),
    ("voyage", "pay", 1, "in COMMIT"),
    ("voyage", "greet", 1, "greet: entered"),
    ("farewell", "linger", 3, "linger: entered"),
]
"""Where the first of two workers dies: in which story, step and turn, and at which of its points."""


def sink_twice(alias: str, folder: Path) -> list[tuple[str, str, str, str]]:
    """Let a worker die at each of `INTERRUPTED`, and its successor at each point until it has left that step behind.

    Return the story, the namespace and the two points of every pair.
    """
    configure()
    pairs = []
    for number, (story, step, turn, name) in enumerate(INTERRUPTED):
        probe = f"{folder.name}-{number}"
        whole = points_of(story, alias, f"{probe}-whole", Ledger(folder / f"{probe}-whole"))
        first = whole.index(name, _nth(whole, f"{step}: entered", turn))
        die(lambda: sail(story, alias, probe, Ledger(folder / probe), Points(first)), name)  # noqa: B023
        again = points_of(story, alias, probe, Ledger(folder / probe), aged=LEASE)
        begin = again.index("the worker begins")
        # The step may be behind it from the beginning: its COMMIT had been sent.
        beyond = next(number for number, point in enumerate(again) if number > begin and point.endswith(": saved"))
        for second in range(begin, beyond + 1):
            namespace = f"{probe}-{second}"
            ledger = Ledger(folder / namespace)
            die(lambda: sail(story, alias, namespace, ledger, Points(first)), name)  # noqa: B023
            die(lambda: sail(story, alias, namespace, ledger, Points(second), aged=LEASE), f"{name}, then {second}")  # noqa: B023
            pairs.append((story, namespace, name, again[second]))
    return pairs


def _nth(names: list[str], name: str, count: int) -> int:
    return [number for number, found in enumerate(names) if found == name][count - 1]


def sink_anytime(alias: str, folder: Path, voyages: int, deaths: int) -> tuple[list[str], int]:
    """Let workers die at random moments, over the driver's own cursors."""

    def go(namespace: str, aged: float) -> None:
        ledger = Ledger(folder / namespace)
        sail("voyage", alias, namespace, ledger, CrashPoints(), aged=aged, phase=contextlib.nullcontext)

    configure()
    points_of("voyage", alias, f"{folder.name}-whole", Ledger(folder / "whole"))
    return die_anytime(go, folder.name, voyages, deaths)
