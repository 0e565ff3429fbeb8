"""The engine's primitives, called one by one: what a store does, without the engine's own decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest

from django_statestore.contracts.mailbox import Limits, Mail, Reply, Request
from django_statestore.contracts.position import Position
from django_statestore.contracts.taskrecord import NewTask, TaskRecord
from django_statestore.contracts.tasks import Committed, Grant, Save, TaskPrimitives, Wait, Waking
from django_statestore.flow import Action, Flow
from django_statestore.keys import Entry
from tests.durable.conftest import Bench

T = TypeVar("T")

HOUR = 3_600_000
LEASE = 60_000

SAVE = Save(
    ending="stop",
    state='"saved"',
    step="first",
    turn=1,
    attempts=1,
    outcome="done",
    milliseconds=5,
    worker="worker",
    next_index=1,
    next_turn=1,
    more_attempts=0,
    refund=0,
    calls=0,
    lease=LEASE,
    notify=None,
)


@dataclass
class Raw:
    """Call primitives in one form on one store."""

    bench: Bench

    @property
    def tasks(self) -> TaskPrimitives:
        return self.bench.engine

    def do(self, action: Action[T]) -> T:
        def only() -> Flow[T]:
            return (yield from action)

        return self.bench.call.flow(only())

    def entry(self, task_id: str = "t") -> Entry:
        return self.bench.store.durable.entry(task_id)

    def new(self, task_id: str = "t", **changes: Any) -> NewTask:
        new = NewTask(
            entry=self.entry(task_id),
            definition="raw",
            revision="1",
            fingerprint="print",
            start_digest=b"d" * 32,
            state='"new"',
            max_attempts=9,
            deadline=HOUR,
            max_calls=None,
            max_calls_per_attempt=None,
            retention=None,
            notify=None,
        )
        return replace(new, **changes)

    def start(self, task_id: str = "t", **changes: Any) -> TaskRecord:
        assert self.do(self.tasks.task_start(self.new(task_id, **changes)))
        return self.record(task_id)

    def record(self, task_id: str = "t") -> TaskRecord:
        record = self.do(self.tasks.task_read(self.entry(task_id)))
        assert record is not None
        return record

    def at(self, task_id: str = "t") -> Position:
        record = self.record(task_id)
        return record.position

    def claim(self, task_id: str = "t", waking: Waking | None = None, *, enter: bool = True) -> Grant | None:
        return self.do(self.tasks.task_claim(self.at(task_id), "worker", LEASE, enter=enter, calls=0, waking=waking))

    def commit(self, task_id: str = "t", **changes: Any) -> Committed | None:
        record = self.record(task_id)
        save = replace(SAVE, attempts=record.attempts, next_index=record.step_index + 1, **changes)
        return self.do(self.tasks.task_commit(self.at(task_id), save))

    def wait(self, task_id: str = "t", wait: Wait | None = None, **changes: Any) -> TaskRecord:
        """Claim the task and commit a wait; return its record."""
        assert self.claim(task_id) is not None
        assert self.commit(task_id, ending="wait", wait=wait or Wait(None, "go"), **changes) is not None
        return self.record(task_id)

    def request(self, request: Request, task_id: str = "t") -> Reply:
        return self.do(self.tasks.task_request(self.entry(task_id), request))

    def signal(self, name: str = "go", payload: str = "null", task_id: str = "t", **more: Any) -> Reply:
        return self.request(Request("signal", name, payload, **more), task_id)

    def cancel(self, reason: str = "enough", task_id: str = "t", **more: Any) -> Reply:
        return self.request(Request("cancel", reason, **more), task_id)

    def grant(self, task_id: str = "t", notify: int | None = None, sender: str = "", **limits: Any) -> Reply:
        return self.request(Request("grant", limits=Limits(**limits), notify=notify, sender=sender), task_id)

    def mail(self, name: str = "go", task_id: str = "t") -> Mail | None:
        return self.do(self.tasks.task_mail(self.record(task_id).id, name))

    def look(self, name: str = "go", task_id: str = "t") -> tuple[int, bool]:
        return self.do(self.tasks.task_look(self.record(task_id).id, name))

    def waking(self, task_id: str = "t") -> Waking:
        """Return what a claim names that has looked for the signal that the task waits for."""
        record = self.record(task_id)
        mail = self.mail(record.waiting_for, task_id)
        return Waking(record.signal_seq, mail.id if mail else None)


@pytest.fixture
def raw(bench: Bench) -> Raw:
    return Raw(bench)
