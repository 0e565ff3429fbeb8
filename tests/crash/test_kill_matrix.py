"""A worker that is killed anywhere loses nothing, and nothing outside happens twice."""

import uuid
from pathlib import Path

import pytest

from django_statestore import stores
from django_statestore.exceptions import TaskBusy
from django_statestore.testing import CrashPoints, age
from tests.crash.checks import check_arrived, check_killed
from tests.crash.journey import JOURNEYS
from tests.crash.ledger import Ledger
from tests.crash.nursery import LEASE, kill_everywhere, kill_twice, travel
from tests.processes import Processes


def test_killed_at_every_point(processes: Processes, alias: str, tmp_path: Path) -> None:
    namespace = uuid.uuid4().hex
    store = stores[alias].namespace(namespace)
    names = processes.start(kill_everywhere, alias, namespace, tmp_path).result()
    print(f"{alias}: killed at {len(names)} points")  # noqa: T201
    ledgers = [Ledger(tmp_path / f"killed-{number}") for number in range(len(names))]
    for ledger in ledgers:
        check_killed(store, ledger)
    refused = 0
    for ledger in ledgers:
        if ledger.lines("entered") and JOURNEYS[alias].get(ledger.path.name, namespace=[namespace]).record.leased:
            refused += 1
            with pytest.raises(TaskBusy):  # a dead worker's lease lives on
                JOURNEYS[alias].run(ledger.path.name, namespace=[namespace])
    assert refused > len(names) / 2
    age(store, LEASE)
    for name, ledger in zip(names, ledgers, strict=True):
        handle = travel(alias, namespace, ledger, CrashPoints())
        check_arrived(handle, ledger, deaths=1), name


def test_the_successor_is_killed_at_every_point_too(processes: Processes, alias: str, tmp_path: Path) -> None:
    pairs = processes.start(kill_twice, alias, tmp_path).result()
    print(f"{alias}: killed at {len(pairs)} pairs of points")  # noqa: T201
    for namespace, _, _ in pairs:
        ledger = Ledger(tmp_path / namespace)
        check_killed(stores[alias].namespace(namespace), ledger)
        handle = travel(alias, namespace, ledger, CrashPoints(), aged=LEASE)
        check_arrived(handle, ledger, deaths=2)
