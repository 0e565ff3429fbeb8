"""A task that kills its workers is parked before it has killed many; one that dies while it renews is replaced."""

import uuid
from pathlib import Path

import pytest

from django_statestore import stores
from django_statestore.durable.invoke import Invoke
from django_statestore.services.work import drive_due
from django_statestore.testing import age
from tests.crash import deaths
from tests.crash.checks import killed_at
from tests.crash.forks import LEASE
from tests.crash.journey import START, Trip
from tests.crash.ledger import Ledger
from tests.crash.scripted import SCRIPT_END, SCRIPTED, rows_of
from tests.processes import Processes

LIMIT = 5
"""Claims without an outcome that a task may have."""

# A first step is entered by the claim, which counts; a later one by the commit before it, which starts the count anew.
LOOPS = {
    "begin": ("crash_loop", LIMIT, [(n, n) for n in range(1, 6)], []),
    "act": ("reconcile_unknown", LIMIT + 1, [(2 + n, n) for n in range(6)], ["begin"]),
    "end": ("crash_loop", LIMIT + 1, [(3 + n, n) for n in range(6)], ["begin", "act"]),
    "reconcile": ("reconcile_unknown", LIMIT, [(2, n) for n in range(1, 6)], ["begin"]),
    "call": ("crash_loop", LIMIT, [(n, n) for n in range(1, 6)], []),
    "seal": ("crash_loop", LIMIT + 1, [(2 + n, n) for n in range(6)], ["call"]),
    "close": ("crash_loop", LIMIT, [(3 + n, n) for n in range(1, 6)], ["call", "seal", "rest"]),
    "frail": ("attempts_exhausted", 3, [(n, n) for n in range(1, 4)], []),
}
"""Where workers die: why the task is parked, after how many, attempts and claims after each, and what was saved."""


def test_a_task_that_kills_its_workers_is_parked(processes: Processes, alias: str, tmp_path: Path) -> None:
    counts = {where: loop[1] for where, loop in LOOPS.items()}
    died = processes.start(deaths.die_in_loops, alias, tmp_path, counts).result()
    for where in LOOPS:
        with killed_at(where):
            check_parked(alias, f"{tmp_path.name}-{where}", Ledger(tmp_path / where), died[where])


def check_parked(alias: str, namespace: str, ledger: Ledger, died: list[tuple[int, int]]) -> None:
    reason, count, counted, saved = LOOPS[ledger.path.name]
    task, store, lines = (
        deaths.TASKS.get(ledger.path.name, SCRIPTED)[alias],
        stores[alias].namespace(namespace),
        ledger.lines(),
    )
    parked = task.run("t", namespace=[namespace])
    assert died == counted
    assert (parked.status, parked.reason, parked.parked) == ("running", reason, True)
    assert parked.state == Trip(saved)
    entered = sum(line.what != "reconcile" for line in lines)
    assert parked.record.attempts == counted[-1][0] == entered
    assert sum(line.what == ledger.path.name for line in lines) == count
    age(store, LEASE * 100)
    rows = rows_of(store, "t")
    drive_due(alias, bool)
    assert parked.run().reason == reason
    assert rows_of(store, "t") == rows
    assert ledger.lines() == lines  # not one more step


def test_killed_while_it_renews(processes: Processes, alias: str) -> None:
    points, namespace = 6, uuid.uuid4().hex  # before and after the first three renewals
    unsaved = 2 if alias == "default" else 1  # on SQLite an update that returns rows ends when they are fetched
    task, store = SCRIPTED[alias], stores[alias].namespace(namespace)
    for number in range(points):
        task.start(START, task_id=f"{number}", namespace=[namespace])
    processes.start(deaths.die_renewing, alias, namespace, points).result()
    age(store, LEASE)
    for number in range(points):
        handle = task.get(f"{number}", namespace=[namespace])
        assert handle.progress == (None if number < unsaved else (0.5, "half"))
        handle = handle.run()
        assert (handle.status, handle.state, handle.record.attempts) == ("completed", SCRIPT_END, 4)


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_run_that_nobody_drives_on(alias: str) -> None:
    """An event loop that is closed drops its coroutines: that is a death too, and it is as quiet as one."""
    task, store = SCRIPTED[alias], stores[alias].namespace(uuid.uuid4().hex)
    task.start(START, task_id="t", namespace=store.names)
    run = task._run("t", namespace=store.names)
    action = next(run)
    while not isinstance(action, Invoke):
        action = run.send(action.run())
    run.close()
    assert task.get("t", namespace=store.names).record.leased
    age(store, LEASE)
    assert task.run("t", namespace=store.names).state == SCRIPT_END
