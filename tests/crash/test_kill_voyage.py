"""The same for calls, items, atomic steps, sleeps, waits and signals: killed anywhere, all is as if nobody had died."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from django_statestore import stores
from django_statestore.testing import CrashPoints
from tests.crash.checks import killed_at
from tests.crash.forks import LEASE
from tests.crash.ledger import Ledger
from tests.crash.logbook import check_home, check_sunk
from tests.crash.sailings import sail, sink_anytime, sink_everywhere, sink_twice
from tests.crash.voyage import STORIES
from tests.processes import Processes


@pytest.mark.parametrize("story", STORIES)
def test_killed_at_every_point(processes: Processes, alias: str, tmp_path: Path, story: str) -> None:
    names = processes.start(sink_everywhere, story, alias, tmp_path).result(timeout=600)
    print(f"{alias}: {story} killed at {len(names)} points")  # noqa: T201
    for number, name in enumerate(names):
        check_next(story, alias, Ledger(tmp_path / f"{tmp_path.name}-{number}"), name)


def check_next(story: str, alias: str, ledger: Ledger, *points: str) -> None:
    """Check what the dead have left, and that another brings the task to its end."""
    namespace = ledger.path.name
    with killed_at(*points):
        check_sunk(story, stores[alias].namespace(namespace), ledger)
        handle = sail(story, alias, namespace, ledger, CrashPoints(), aged=LEASE, phase=nullcontext)
        check_home(story, handle, ledger, deaths=len(points))


def test_the_successor_is_killed_at_every_point_too(processes: Processes, alias: str, tmp_path: Path) -> None:
    pairs = processes.start(sink_twice, alias, tmp_path).result(timeout=600)
    print(f"{alias}: killed at {len(pairs)} pairs of points")  # noqa: T201
    for story, namespace, first, second in pairs:
        check_next(story, alias, Ledger(tmp_path / namespace), first, second)


def test_killed_at_any_moment(processes: Processes, alias: str, tmp_path: Path) -> None:
    voyages, deaths = 8, 3
    namespaces, died = processes.start(sink_anytime, alias, tmp_path, voyages, deaths).result(timeout=600)
    print(f"{alias}: killed {died} workers of {voyages} voyages at random moments")  # noqa: T201
    assert died > voyages / 2
    for namespace in namespaces:
        check_next("voyage", alias, Ledger(tmp_path / namespace), *["some moment"] * deaths)
