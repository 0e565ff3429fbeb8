"""PostgreSQL comes and goes under durable tasks: each comes to its end, and what it does happens once.

STATESTORE_LOAD is the number of tasks (default 300).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.outages.audit import REST, Runs, ids, keep
from tests.outages.labour import Project, labour, parkings, start_all
from tests.outages.targets import Target
from tests.processes import Child, Processes
from tests.servers.served import Order

TASKS = int(os.environ.get("STATESTORE_LOAD", 300))
WORKERS = 4
STARTS = 25
"""Tasks that are started in a second, and so more than one restart comes meanwhile."""
BOUND = 60 + TASKS / 5
"""Seconds after which a task that has not ended is taken to be stuck, on the slowest machine."""
BETWEEN = (2.0, 3.0)
"""Seconds between two outages."""
SETTINGS = {"LEASE": 2, "SWEEP_EVERY": 1}
RAN = ["gather", "pay", "book", "tell", "file"]


@pytest.mark.parametrize("server", ["postgres"], indirect=True)
def test_tasks_come_to_their_end_however_often_the_database_goes(
    server: Any, target: Target, children: Processes, namespace: str, tmp_path: Path
) -> None:
    project, half = Project(target, namespace, tmp_path, SETTINGS), TASKS // 2
    runs: Runs = {task_id: [RAN] for name in ("morning", "evening") for task_id in ids(name, half)}
    keeper = children.start(keep, project, "errands", runs, BOUND)
    workers = [children.start(labour, project, "errands") for _ in range(WORKERS)]
    starters = [
        children.start(start_all, project, "errands", name, half, TASKS / STARTS) for name in ("morning", "evening")
    ]
    for each in (keeper, *workers, *starters):
        each.expect("ready to", BOUND)
    for each in (*workers, *starters):
        each.go()
    started = time.monotonic()
    outages = interrupted(server, keeper)
    seconds = round(time.monotonic() - started)
    for each in (keeper, *workers):
        each.go()
    wrong, attempts = keeper.result()
    tallies: list[Counter[str]] = [starter.result() for starter in starters]
    logged: list[Counter[str]] = [worker.result() for worker in workers]
    print(f"{len(runs)} tasks in {seconds} s", outages, sum(tallies, Counter()), attempts, sum(logged, Counter()))  # noqa: T201
    assert not wrong, "\n".join(wrong)
    assert not parkings(tmp_path)
    assert len(outages) == len(WAYS), "it was over too soon"


def interrupted(server: Any, keeper: Child) -> Counter[str]:
    """End, kill and start the server and kill one of its sessions, in turn, until all tasks have ended."""
    done: Counter[str] = Counter()
    for name, way in itertools.cycle(WAYS.items()):
        until = time.monotonic() + random.uniform(*BETWEEN)
        while time.monotonic() < until:
            if REST in keeper.output:
                return done
            time.sleep(0.05)
        way(server)
        done[name] += 1
    raise AssertionError


def restart(server: Any, order: Order) -> None:
    server.order(order)
    server.order("start")


def kill_session(server: Any) -> None:
    """Kill a process that serves somebody at this moment: PostgreSQL ends all sessions then, and recovers.

    Waits until it has: a server that is to end while it recovers may never do so (PostgreSQL 18).
    """
    import psycopg

    busy = "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() limit 1"
    with psycopg.connect(server.url, autocommit=True) as connection:
        row = connection.execute(busy).fetchone()
        if row is None:
            return  # nobody is connected at this moment
        try:
            os.kill(row[0], signal.SIGKILL)
        except ProcessLookupError:
            return
        with contextlib.suppress(psycopg.OperationalError):
            connection.execute("select pg_sleep(60)")  # until this session is ended too
    give_up = time.monotonic() + BOUND
    while True:
        try:
            psycopg.connect(server.url).close()
        except psycopg.OperationalError:
            assert time.monotonic() < give_up, "the server has not recovered"
            time.sleep(0.05)
        else:
            return


WAYS: dict[str, Callable[[Any], None]] = {
    "ended": lambda server: restart(server, "end"),
    "killed": lambda server: restart(server, "kill"),
    "a session killed": kill_session,
}
