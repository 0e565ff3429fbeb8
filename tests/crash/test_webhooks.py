"""From webhook to row, item and task exactly once, though the process may die and the sender sends again."""

import uuid
from pathlib import Path

from tests.crash import webhooks
from tests.processes import Processes


def test_killed_between_every_two_statements(processes: Processes, alias: str) -> None:
    points = processes.start(webhooks.webhooks_killed, alias).result()
    for table in ("statestore_dedup", "auth_group", "statestore_queue", "statestore_task"):
        assert any(table in point for point in points), f"nobody was killed beside {table}"
    print(f"{alias}: killed at {len(points)} points")  # noqa: T201


def test_sent_to_eight_processes_at_once(processes: Processes, alias: str, tmp_path: Path) -> None:
    namespace, events = uuid.uuid4().hex, [f"event {number}" for number in range(20)]
    told = processes.start(webhooks.webhooks_at_once, alias, namespace, events, tmp_path).result()
    for number in range(len(events)):
        assert sorted(answers[number] for answers in told) == ["done"] + ["repeat"] * 7
    assert webhooks.effects(alias, namespace) == (20, 20, 20)
