"""A worker that is killed anywhere loses nothing, and nothing outside happens twice."""

import uuid
from pathlib import Path

import pytest

from django_statestore import stores
from django_statestore.exceptions import TaskBusy
from django_statestore.testing import CrashPoints, age
from tests.crash.checks import check_arrived, check_killed, killed_at
from tests.crash.forks import LEASE
from tests.crash.journey import JOURNEYS
from tests.crash.ledger import Ledger
from tests.crash.travels import kill_anytime, kill_everywhere, kill_twice, travel
from tests.processes import Processes


def test_killed_at_every_point(processes: Processes, alias: str, tmp_path: Path) -> None:
    namespace = uuid.uuid4().hex
    store = stores[alias].namespace(namespace)
    names = processes.start(kill_everywhere, alias, namespace, tmp_path).result()
    print(f"{alias}: killed at {len(names)} points")  # noqa: T201
    ledgers = [Ledger(tmp_path / f"killed-{number}") for number in range(len(names))]
    for name, ledger in zip(names, ledgers, strict=True):
        with killed_at(name):
            check_killed(store, ledger)
            if ledger.lines("entered") and name != names[-1]:
                check_left_alone(alias, namespace, ledger)
    age(store, LEASE)
    for name, ledger in zip(names, ledgers, strict=True):
        with killed_at(name):
            handle = travel(alias, namespace, ledger, CrashPoints())
            check_arrived(handle, ledger, deaths=1)


def check_left_alone(alias: str, namespace: str, ledger: Ledger) -> None:
    """Check that the lease of a dead worker keeps others away until it lapses."""
    handle, before = JOURNEYS[alias].get(ledger.path.name, namespace=[namespace]), ledger.lines()
    if handle.status == "running":
        with pytest.raises(TaskBusy):
            handle.run()
    assert handle.refresh().record.save_seq == handle.record.save_seq
    assert ledger.lines() == before


def test_the_successor_is_killed_at_every_point_too(processes: Processes, alias: str, tmp_path: Path) -> None:
    pairs = processes.start(kill_twice, alias, tmp_path).result()
    print(f"{alias}: killed at {len(pairs)} pairs of points")  # noqa: T201
    for namespace, first, second in pairs:
        ledger = Ledger(tmp_path / namespace)
        with killed_at(first, second):
            check_killed(stores[alias].namespace(namespace), ledger)
            handle = travel(alias, namespace, ledger, CrashPoints(), aged=LEASE)
            check_arrived(handle, ledger, deaths=2)


def test_killed_at_any_moment(processes: Processes, alias: str, tmp_path: Path) -> None:
    journeys, deaths = 24, 3
    namespaces, died = processes.start(kill_anytime, alias, tmp_path, journeys, deaths).result()
    print(f"{alias}: killed {died} workers of {journeys} journeys at random moments")  # noqa: T201
    assert died > journeys / 2
    for namespace in namespaces:
        ledger = Ledger(tmp_path / namespace)
        check_killed(stores[alias].namespace(namespace), ledger)
        handle = travel(alias, namespace, ledger, CrashPoints(), aged=LEASE)
        check_arrived(handle, ledger, deaths=deaths)
