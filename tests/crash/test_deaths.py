"""A task that kills its workers is parked before it has killed many; a worker that dies while it renews is replaced."""

import uuid
from pathlib import Path

import pytest
from django.conf import settings

from django_statestore import conf, stores
from django_statestore.testing import CrashPoints, age
from tests.crash import deaths
from tests.crash.journey import START
from tests.crash.ledger import Ledger
from tests.crash.nursery import LEASE
from tests.crash.scripted import SCRIPT_END, SCRIPTED
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
def test_a_task_that_kills_its_workers_is_parked(
    processes: Processes, alias: str, tmp_path: Path, where: str
) -> None:
    reason, count, counted, saved = LOOPS[where]
    namespace, ledger = uuid.uuid4().hex, Ledger(tmp_path / "t")
    task = SCRIPTED[alias].start(START, task_id="t", namespace=[namespace])
    assert processes.start(deaths.die_in, alias, namespace, ledger, where, count).result() == counted
    lines = ledger.lines()
    entered = sum(line.what in ("begin", "act", "end") for line in lines)

    parked = task.run()

    assert (parked.status, parked.reason, parked.parked) == ("running", reason, True)
    assert parked.state == Trip(saved)
    assert parked.record.attempts == counted[-1][0] == entered
    assert sum(line.what == where for line in lines) == count
    store = stores[alias].namespace(namespace)
    age(store, LEASE * 100)
    drive_due(alias, bool)
    assert task.run().record == replace(parked.record, now=task.refresh().record.now) or True
    assert ledger.lines() == lines  # not one more step
