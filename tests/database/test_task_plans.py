"""What a task costs does not grow with what was asked of it, nor the sweep with the tasks that rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from django_statestore import Store
from django_statestore.contracts.journal import CallLine
from django_statestore.contracts.tasks import Wait
from django_statestore.models import JournalItem, MailboxItem, Task
from tests.calling import Call
from tests.database.plans import watched
from tests.database.test_plans import PLANS
from tests.durable.conftest import Bench
from tests.durable.raw import LEASE, Raw

MANY = 3000
ROWS, INSTRUCTIONS = 12, 1000
"""What an operation may look at on PostgreSQL, and run on SQLite, where a row takes seven instructions or more."""


@pytest.fixture
def raw(store: Store) -> Raw:
    return Raw(Bench(store.alias, store, Call(asynchronous=False)))


def costs(raw: Raw, operations: dict[str, Callable[[], Any]]) -> dict[str, list[int]]:
    """Return which operations look at too much, and at how much."""
    vendor, found = connections[raw.bench.alias].vendor, dict[str, list[int]]()
    most = INSTRUCTIONS if vendor == "sqlite" else ROWS
    with connections[raw.bench.alias].cursor() as cursor:
        cursor.execute("analyze")
    for plans in PLANS[vendor]:
        for name, operate in operations.items():
            with watched(raw.bench.store, plans) as work:
                operate()
            assert work.plans, "nothing was seen"
            if work.touched > most:
                found.setdefault(name, []).append(work.touched)
    return found


def test_an_old_task_costs_no_more_than_a_young_one(raw: Raw) -> None:
    record = raw.start(max_attempts=10**6)
    now, using = record.now, raw.bench.alias
    MailboxItem.objects.using(using).bulk_create(
        MailboxItem(task_id=record.id, kind="signal", name="go", sent_at=now, seq=seq, used_at=now)
        for seq in range(1, MANY)
    )
    JournalItem.objects.using(using).bulk_create(
        JournalItem(task_id=record.id, number=number, kind=kind, name="log", save_seq=-1, value="1", created_at=now)
        for number, kind in enumerate(["item", "call"] * (MANY // 2), 1)
    )
    Task.objects.using(using).filter(id=record.id).update(signal_seq=MANY, signals_seen=MANY, journal_seq=MANY)
    raw.wait(wait=Wait(None, "go", seen=MANY))
    raw.signal("go")
    task, at, waking = record.id, raw.at(), raw.waking()
    claim = raw.tasks.task_claim(at, "worker", LEASE, enter=True, calls=0, waking=waking)
    call = CallLine("search", 1, b"a" * 32, "null")
    assert (
        costs(
            raw,
            {
                "look": raw.tasks.task_look(task, "go").run,
                "mail": raw.tasks.task_mail(task, "go").run,
                "claim": claim.run,
                "journal": lambda: raw.tasks.task_journal(raw.at(), call).run(),
                "calls": raw.tasks.task_calls(task, 1).run,
                "signal": lambda: raw.signal("go"),
                "signal with a key": lambda: raw.signal("go", key="k"),
                "with requests": raw.tasks.tasks_with_requests(0, 10).run,
            },
        )
        == {}
    )


def test_tasks_that_rest_cost_a_sweep_nothing(raw: Raw) -> None:
    record, using = raw.start(), raw.bench.alias
    far = record.deadline
    resting: list[dict[str, Any]] = [
        {"wake_at": far, "resume_at": far},
        {"wake_at": far, "waiting_for": "go"},
        {"wake_at": None, "reason": "attempts_exhausted"},
        {"wake_at": None, "status": "completed", "finished_at": record.now},
    ]
    Task.objects.using(using).bulk_create(
        Task(
            digest=f"{kind}-{number}".encode().ljust(32),
            namespace="resting",
            key=f"{kind}-{number}",
            fingerprint="print",
            max_attempts=9,
            deadline=far,
            created_at=record.now,
            **fields,
        )
        for kind, fields in enumerate(resting)
        for number in range(1000)
    )
    raw.claim()
    known = ["print"]
    assert (
        costs(
            raw,
            {
                "notify": raw.tasks.tasks_notify(known, 1000, 200).run,
                "due": raw.tasks.tasks_due(known, 200).run,
                "diverge": raw.tasks.tasks_diverge(known, 1000).run,
                "revive": raw.tasks.tasks_revive(known).run,
                "with requests": raw.tasks.tasks_with_requests(0, 200).run,
            },
        )
        == {}
    )
