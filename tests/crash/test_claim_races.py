"""Eight workers on the same due tasks: exactly one enters each. Eight that start one id: there is one task."""

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from django_statestore import stores
from django_statestore.contracts.position import Position
from django_statestore.contracts.tasks import Grant
from django_statestore.durable.task import engine_of
from django_statestore.exceptions import TaskBusy, TaskExists
from django_statestore.flow import Action, Call
from django_statestore.testing import age
from tests.crash.forks import LEASE, configure, together
from tests.crash.journey import START, Trip
from tests.crash.ledger import Ledger
from tests.crash.scripted import SCRIPTED, SINGLE, Script, rows_of
from tests.processes import Processes

WORKERS = 8
TASKS = 500


def count_lost_claims(alias: str, seen: Counter[str]) -> None:
    """Count the claims of this process that found their row changed since it was read."""
    backend = engine_of(stores[alias])
    claim = backend.task_claim

    def task_claim(at: Position, worker: str, lease: int, **options: Any) -> Action[Grant | None]:
        def work() -> Grant | None:
            grant = claim(at, worker, lease, **options).run()
            seen["claim lost"] += grant is None
            return grant

        return Call(work)

    backend.task_claim = task_claim  # type: ignore[method-assign]


def race_for_tasks(alias: str, namespace: str, ids: list[str], folder: Path) -> list[dict[str, int]]:
    configure()
    return together(WORKERS, lambda number: drive_all(alias, namespace, ids, Ledger(folder / "entered")), folder)


def drive_all(alias: str, namespace: str, ids: list[str], ledger: Ledger) -> dict[str, int]:
    """Try to drive every task; return how that went."""
    seen: Counter[str] = Counter()
    count_lost_claims(alias, seen)
    script = Script(on={"once": lambda ctx: ledger.write("entered", ctx.task_id)})
    for id in ids:
        try:
            SINGLE[alias].run(id, namespace=[namespace], app=script)
        except TaskBusy:
            seen["busy"] += 1
    return seen


def test_one_of_many_workers_enters(processes: Processes, alias: str, tmp_path: Path) -> None:
    namespace, ledger = uuid.uuid4().hex, Ledger(tmp_path / "entered")
    store, single = stores[alias].namespace(namespace), SINGLE[alias]
    ids = [f"{'interrupted' if number % 2 else 'fresh'} {number}" for number in range(TASKS)]
    for id in ids:
        record = single.start(START, task_id=id, namespace=[namespace]).record
        if id.startswith("interrupted"):
            claim = engine_of(store).task_claim(record.position, "a dead worker", LEASE * 1000, enter=True, calls=0)
            assert claim.run() is not None
    age(store, LEASE)
    seen: Counter[str] = Counter()
    for counted in processes.start(race_for_tasks, alias, namespace, ids, tmp_path).result():
        seen.update(counted)
    print(f"{alias}: {WORKERS} workers on {TASKS} tasks: {dict(seen)}")  # noqa: T201
    assert seen["claim lost"] + seen["busy"] > 0, "the workers never met"
    entered = Counter(line.step for line in ledger.lines("entered"))
    assert entered == Counter(ids)
    for id in ids:
        record = single.get(id, namespace=[namespace]).record
        assert (record.status, record.save_seq) == ("completed", 1)
        assert record.attempts == (2 if id.startswith("interrupted") else 1)


def race_to_start(alias: str, namespace: str, rounds: int, folder: Path) -> list[list[list[str]]]:
    configure()
    return together(WORKERS, lambda number: start_all(number, alias, namespace, rounds), folder)


def start_all(number: int, alias: str, namespace: str, rounds: int) -> list[list[str]]:
    """Start two tasks a round: one with a state that all have, and one with a state that nobody else has."""
    answers = []
    for round in range(rounds):
        same = SCRIPTED[alias].start(START, task_id=f"same {round}", namespace=[namespace])
        try:
            own = SCRIPTED[alias].start(Trip([f"{number}"]), task_id=f"own {round}", namespace=[namespace])
            answers.append([str(same.record.id), own.state.done[0]])
        except TaskExists:
            answers.append([str(same.record.id), "exists"])
    return answers


def test_one_of_many_starts_wins(processes: Processes, alias: str, tmp_path: Path) -> None:
    rounds, namespace = 60, uuid.uuid4().hex
    store = stores[alias].namespace(namespace)
    answers = processes.start(race_to_start, alias, namespace, rounds, tmp_path).result()
    for round in range(rounds):
        ids = {own[round][0] for own in answers}
        assert len(ids) == 1, "two tasks of one id"
        rows = rows_of(store, f"same {round}")
        assert (len(rows["statestore_task"]), len(rows["statestore_snapshot"])) == (1, 1)
        winners = [number for number, own in enumerate(answers) if own[round][1] != "exists"]
        assert len(winners) == 1
        assert answers[winners[0]][round][1] == f"{winners[0]}"
        assert SCRIPTED[alias].get(f"own {round}", namespace=[namespace]).state == Trip([f"{winners[0]}"])
