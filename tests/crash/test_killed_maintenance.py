"""Whatever is killed half-way leaves nothing half done, and the next one goes on."""

from pathlib import Path

import pytest

from tests.crash import maintenance
from tests.processes import Processes


def test_a_killed_purge(processes: Processes, alias: str) -> None:
    report(alias, processes.start(maintenance.purge_killed, alias).result())


def test_a_killed_sweep(processes: Processes, alias: str, tmp_path: Path) -> None:
    report(alias, processes.start(maintenance.sweep_killed, alias, tmp_path).result())


@pytest.mark.parametrize("in_block", [False, True], ids=["at once", "in a transaction"])
def test_a_killed_cancel(processes: Processes, alias: str, in_block: bool) -> None:
    report(alias, processes.start(maintenance.cancels_killed, alias, in_block).result())


def test_a_killed_start(processes: Processes, alias: str) -> None:
    report(alias, processes.start(maintenance.start_killed, alias).result())


def report(alias: str, points: list[str]) -> None:
    print(f"{alias}: killed at {len(points)} points")  # noqa: T201
