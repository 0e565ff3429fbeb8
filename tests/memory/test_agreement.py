"""Memory decides about durable tasks as a database does, whatever comes in whatever order, late and doubled."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_statestore import Store, stores
from django_statestore.backends.memory import MemoryBackend
from django_statestore.contracts.checkpoint import BudgetUse, Checkpoint
from django_statestore.contracts.tasks import Failure, NewTask, Position, Renewal, Save, TaskRecord
from django_statestore.contracts.tokens import token_digest
from django_statestore.testing import age

KEYS = ["a", "b"]

# Everything is in steps of five seconds: no decision hangs on how fast the test runs.
LEASE, DEADLINE, BACKOFF, GRACE, RETENTION = 10_000, 90_000, 20_000, 30_000, 50_000

EXACT = (
    "driven", "definition", "revision", "fingerprint", "status", "step_index", "turn", "attempts", "max_attempts",
    "max_calls", "reserved_calls", "max_calls_per_attempt", "reason", "save_seq", "claims", "worker",
    "cancel_requested", "progress", "progress_text", "last_error", "state", "saved_attempts", "saved_by",
)  # fmt: skip


@dataclass
class Side:
    """Be one of the two stores, and what was read from it before."""

    store: Store
    read: list[Position] = field(default_factory=list)

    @property
    def engine(self) -> Any:
        return self.store.backend

    def entry(self, key: str) -> Any:
        return self.store.durable.entry(key)

    def record(self, key: str) -> TaskRecord | None:
        record: TaskRecord | None = self.engine.task_read(self.entry(key)).run()
        return record

    def at(self, key: str, late: int) -> Position | None:
        """Return where the task stands, or what was read some time before. The engine leaves what is not its own."""
        record = self.record(key)
        if record is not None and record.driven:
            self.read.append(Position(record.id, record.fence, record.save_seq))
        return self.read[-1 - late % len(self.read)] if self.read else None


Apply = Callable[[Side], Any]


def new(side: Side, key: str, budget: bool, retention: bool) -> NewTask:
    return NewTask(
        entry=side.entry(key),
        definition="d",
        revision="1",
        fingerprint=side.store.names[-1],
        start_digest=b"s" * 32,
        state='"started"',
        max_attempts=3,
        deadline=DEADLINE,
        max_calls=4 if budget else None,
        max_calls_per_attempt=2 if budget else None,
        retention=RETENTION if retention else None,
        notify=None,
    )


def a_save(ending: Any, more: int, refund: int, calls: int, notify: bool, forget: bool, progress: bool) -> Save:
    return Save(
        ending=ending,
        state=f'"{ending}"',
        step="s",
        turn=1,
        attempts=1,
        outcome="done",
        milliseconds=1,
        worker="saver",
        next_index=1,
        next_turn=2 if more else 1,
        more_attempts=more,
        refund=refund,
        calls=calls,
        lease=LEASE,
        notify=GRACE if notify else None,
        reason="code" if ending == "failed" else "",
        progress=0.5 if progress else None,
        progress_text="half" if progress else None,
        forget_through=0 if forget else None,
    )


def a_failure(cancelled: bool, keep: bool, notify: bool) -> Failure:
    reason = "deadline_passed" if cancelled else ""
    return Failure("error", BACKOFF, cancelled, reason, " (open)", keep, GRACE if notify else None)


def a_checkpoint(status: Any, budget: bool) -> Checkpoint:
    use = BudgetUse(max_calls=9, reserved_calls=1, max_calls_per_attempt=2) if budget else None
    return Checkpoint(
        definition_id="d",
        revision="2",
        next_step_index=1,
        attempt_count=1,
        max_attempts=4,
        deadline_at_ms=1_999_999_999_000,
        status=status,
        state=None,
        model_budget=use,
    )


flag, small, key, late = st.booleans(), st.integers(0, 2), st.sampled_from(KEYS), st.sampled_from([0, 0, 0, 0, 1, 2, 5])
token = st.sampled_from(["one", "two"]).map(token_digest)
endings = st.sampled_from(["enter", "enter", "stop", "completed", "failed"])
statuses = st.sampled_from(["ready", "running", "completed", "cancelled"])


def there(name: str, key: str, late: int, *args: Any, **kwargs: Any) -> Apply:
    """Call a primitive that names where the task stands."""

    def apply(side: Side) -> Any:
        at = side.at(key, late)
        return None if at is None else getattr(side.engine, name)(at, *args, **kwargs).run()

    return apply


def entered(name: str, key: str, *args: Any) -> Apply:
    """Call a primitive that names the task's id."""
    return lambda side: getattr(side.engine, name)(side.entry(key), *args).run()


def renewed(key: str, late: int, progress: bool) -> Apply:
    def apply(side: Side) -> Any:
        at = side.at(key, late)
        report = (0.25, "more") if progress else (None, None)
        return at and side.engine.task_renew([Renewal(at.task, at.fence, LEASE, *report)]).run()

    return apply


def unnotified(key: str) -> Apply:
    def apply(side: Side) -> None:
        record = side.record(key)
        if record is not None:
            side.engine.task_unnotify(record.id).run()

    return apply


def known(side: Side, does: bool) -> list[str]:
    return [side.store.names[-1]] if does else []


OPERATIONS = st.one_of(
    st.builds(lambda *args: lambda side: side.engine.task_start(new(side, *args)).run(), key, flag, flag),
    st.builds(
        lambda key, late, enter, calls: there("task_claim", key, late, "w", LEASE, enter=enter, calls=calls),
        key, late, flag, small,
    ),
    st.builds(lambda key, late, calls: there("task_enter", key, late, calls=calls), key, late, small),
    st.builds(
        lambda key, late, *save: there("task_commit", key, late, a_save(*save)),
        key, late, endings, st.integers(0, 1), st.integers(0, 1), small, flag, flag, flag,
    ),
    st.builds(lambda key, late, *how: there("task_fail", key, late, a_failure(*how)), key, late, flag, flag, flag),
    st.builds(renewed, key, late, flag),
    st.builds(lambda key, late: there("task_cancel", key, late, "over"), key, late),
    st.builds(
        lambda key, late, ready: there("task_park", key, late, "crash_loop", ready=ready), key, late, flag
    ),
    st.builds(lambda key, late: there("task_restore", key, late), key, late),
    st.builds(
        lambda key, late: there("task_let_go", key, late, "diverged", "note", pause=LEASE, grace=GRACE), key, late
    ),
    st.builds(lambda key: entered("task_request_cancel", key, "why", "ann"), key),
    st.builds(lambda key, token: entered("durable_claim", key, token, LEASE), key, token),
    st.builds(lambda key, token: entered("durable_release", key, token), key, token),
    st.builds(
        lambda key, token, *what: entered("durable_commit", key, token, a_checkpoint(*what), '"mine"'),
        key, token, statuses, flag,
    ),
    st.builds(lambda key, *what: entered("durable_save", key, a_checkpoint(*what), '"saved"'), key, statuses, flag),
    st.builds(
        lambda key, token: lambda side: side.engine.durable_renew([(side.entry(key), token, LEASE)]).run(), key, token
    ),
    st.builds(lambda does: lambda side: side.engine.tasks_notify(known(side, does), GRACE, 9).run(), flag),
    st.builds(lambda does: lambda side: side.engine.tasks_due(known(side, does), 9).run(), flag),
    st.builds(unnotified, key),
    st.builds(lambda does: lambda side: side.engine.tasks_diverge(known(side, does), GRACE).run(), flag),
    st.builds(lambda does: lambda side: side.engine.tasks_revive(known(side, does)).run(), flag),
    st.builds(lambda: lambda side: side.engine.tasks_purge(RETENTION, 9).run()),
    st.builds(lambda seconds: lambda side: age(side.store, seconds), st.sampled_from([5, 10, 35, 100_000])),
)  # fmt: skip


BEGINNINGS: dict[str, tuple[Apply, ...]] = {
    "nothing": (),
    "started": (lambda side: side.engine.task_start(new(side, "a", True, False)).run(),),
    "claimed": (
        lambda side: side.engine.task_start(new(side, "a", True, True)).run(),
        there("task_claim", "a", 0, "w", LEASE, enter=True, calls=1),
    ),
}


def told(answer: Any) -> Any:
    """Return what two stores must tell alike: no ids, no fences, and instants only by whether there are any."""
    if isinstance(answer, list):
        return sorted(map(told, answer), key=repr)
    if hasattr(answer, "fingerprint"):
        return answer.key
    if hasattr(answer, "fence"):
        same = ("status", "reason", "attempts", "cancel_requested")
        return [getattr(answer, name) for name in same if hasattr(answer, name)]
    return answer is not None if isinstance(answer, int) and not isinstance(answer, bool) and answer > 9 else answer


def check_alike(one: TaskRecord | None, other: TaskRecord | None) -> None:
    """Check that two stores show the same task, where both were asked at about the same time."""
    if one is None or other is None:
        assert one is other
        return
    assert [getattr(other, name) for name in EXACT] == [getattr(one, name) for name in EXACT]
    assert about(other) == about(one)
    assert left(other) == [each if each is None else pytest.approx(each, abs=2) for each in left(one)]


def about(record: TaskRecord) -> list[bool]:
    return [record.finished, record.parked, record.leased, record.due, record.restful, record.overdue]


def left(record: TaskRecord) -> list[float | None]:
    """Return the seconds until each of the instants."""
    instants = (record.wake_at, record.resume_at, record.deadline, record.finished_at)
    return [None if at is None else (at - record.now).total_seconds() for at in instants]


@pytest.mark.django_db
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(begun=st.sampled_from(["nothing", "started", "claimed"]), steps=st.lists(OPERATIONS, min_size=5, max_size=40))
def test_memory_and_sqlite_answer_alike_and_show_the_same(begun: str, steps: list[Apply]) -> None:
    create = getattr(transaction, "savepoint_create", transaction.savepoint)  # its name from Django 6.1 on
    savepoint, name = create(), f"agree-{uuid.uuid4().hex[:12]}"
    try:
        sides = Side(stores["default"].namespace(name)), Side(MemoryBackend().store().namespace(name))
        for step in (*BEGINNINGS[begun], *steps):
            fences = [[record.fence if (record := side.record(key)) else 0 for key in KEYS] for side in sides]
            one, other = [told(step(side)) for side in sides]
            assert one == other
            after = [[side.record(key) for key in KEYS] for side in sides]
            for pair in zip(*after, strict=True):
                check_alike(*pair)
            raised = [
                [record is not None and record.fence > fence for record, fence in zip(*pair, strict=True)]
                for pair in zip(after, fences, strict=True)
            ]
            assert raised[0] == raised[1]
    finally:
        transaction.savepoint_rollback(savepoint)
