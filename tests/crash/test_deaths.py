"""A task that kills its workers is parked before it has killed many; one that dies while it renews is replaced."""

import uuid
from pathlib import Path

import pytest

from django_statestore import stores
from django_statestore.services.work import drive_due
from django_statestore.testing import age
from tests.crash import deaths
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
}
"""Where workers die: why the task is parked, after how many, attempts and claims after each, and what was saved."""


@pytest.mark.parametrize("where", LOOPS)
def test_a_task_that_kills_its_workers_is_parked(processes: Processes, alias: str, tmp_path: Path, where: str) -> None:
    reason, count, counted, saved = LOOPS[where]
    namespace, ledger = uuid.uuid4().hex, Ledger(tmp_path / "t")
    task, store = SCRIPTED[alias].start(START, task_id="t", namespace=[namespace]), stores[alias].namespace(namespace)
    assert processes.start(deaths.die_in, alias, namespace, ledger, where, count).result() == counted
    lines = ledger.lines()
    entered = sum(line.what in ("begin", "act", "end") for line in lines)

    parked = task.run()

    assert (parked.status, parked.reason, parked.parked) == ("running", reason, True)
    assert parked.state == Trip(saved)
    assert parked.record.attempts == counted[-1][0] == entered
    assert sum(line.what == where for line in lines) == count
    age(store, LEASE * 100)
    rows = rows_of(store, "t")
    drive_due(alias, bool)
    assert task.run().reason == reason
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
