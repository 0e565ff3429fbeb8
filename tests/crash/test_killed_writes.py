"""A write that takes several statements has happened or not, wherever its process dies."""

from django.db import connections

from tests.crash import sequences
from tests.processes import Processes


def test_killed_between_two_statements(processes: Processes, alias: str) -> None:
    points = processes.start(sequences.writes_killed, alias).result()
    several = {name for name, passed in points.items() if len(passed) > 3}
    alone = {"append", "trim", "write"} if connections[alias].vendor == "postgresql" else {"take", "release"}
    assert several == set(sequences.WRITES) - alone
    print(f"{alias}: killed at {sum(map(len, points.values()))} points")  # noqa: T201
