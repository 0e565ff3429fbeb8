"""Whatever is killed half-way leaves nothing half done, and the next one goes on."""

import threading
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from django_statestore import stores
from django_statestore.services.purge import purge
from django_statestore.testing import age
from tests.crash import maintenance
from tests.crash.journey import START
from tests.crash.scripted import FOREIGN, SCRIPTED
from tests.processes import Processes


def test_a_killed_purge(processes: Processes, alias: str) -> None:
    report(alias, processes.start(maintenance.purge_killed, alias).result())


def test_a_killed_sweep(processes: Processes, alias: str, tmp_path: Path) -> None:
    report(alias, processes.start(maintenance.sweep_killed, alias, tmp_path).result())


@pytest.mark.parametrize("in_block", [False, True], ids=["at once", "in a transaction"])
def test_a_killed_cancel(processes: Processes, alias: str, in_block: bool) -> None:
    report(alias, processes.start(maintenance.cancels_killed, alias, in_block).result())


@pytest.mark.parametrize("in_block", [False, True], ids=["at once", "in a transaction"])
def test_a_killed_signal(processes: Processes, alias: str, in_block: bool) -> None:
    report(alias, processes.start(maintenance.signals_killed, alias, in_block).result())


def test_a_killed_start(processes: Processes, alias: str) -> None:
    report(alias, processes.start(maintenance.start_killed, alias).result())


def test_a_killed_holder_of_a_lease(processes: Processes, alias: str) -> None:
    report(alias, processes.start(maintenance.exclusive_killed, alias).result())


@pytest.mark.parametrize("revival", ["held", "saved anew"])
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_purge_spares_what_came_back_to_life(alias: str, revival: str) -> None:
    """Between the look-up of a batch and its delete a task may be taken up again."""
    store = stores[alias].namespace(uuid.uuid4().hex)
    store.durable.save("t", replace(FOREIGN, status="completed"))
    age(store, timedelta(days=20))
    revived = []

    def revive() -> None:
        if revival == "held":
            revived.append(store.durable.claim("t"))
        else:
            store.durable.save("t", FOREIGN)
            revived.append(None)
        connections.close_all()

    def meanwhile(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if not revived and sql.startswith("select id from statestore_task where finished_at"):
            thread = threading.Thread(target=revive)
            thread.start()
            thread.join()
        return result

    with connections[alias].execute_wrapper(meanwhile):
        purge(alias)

    assert len(revived) == 1
    checkpoint = store.durable.load("t")
    assert checkpoint is not None
    assert checkpoint.status == ("completed" if revival == "held" else "running")


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_start_beside_the_purge_of_its_id(alias: str) -> None:
    """An id is free once its old task is gone, also where that happens while somebody finds it taken."""
    namespace = uuid.uuid4().hex
    old = SCRIPTED[alias].start(START, task_id="t", namespace=[namespace]).cancel()
    age(stores[alias].namespace(namespace), timedelta(days=20))
    purged: list[int] = []

    def meanwhile(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not purged and sql.lstrip().startswith("select t.id"):
            purged.append(purge(alias)["tasks"])
        return execute(sql, params, many, context)

    with connections[alias].execute_wrapper(meanwhile):
        new = SCRIPTED[alias].start(START, task_id="t", namespace=[namespace])

    assert purged == [1]
    assert new.status == "ready"
    assert new.record.id != old.record.id


def report(alias: str, points: list[str]) -> None:
    print(f"{alias}: killed at {len(points)} points")  # noqa: T201
