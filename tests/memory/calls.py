"""Calls of the engine's primitives: what they write, and where they find it on a store."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from django_statestore.contracts.checkpoint import BudgetUse, Checkpoint
from django_statestore.contracts.history import Fork, Repair, RepairSave
from django_statestore.contracts.journal import Item
from django_statestore.contracts.taskrecord import NewTask
from django_statestore.contracts.tasks import Failure, Renewal, Save, Wait, Waking
from django_statestore.exceptions import TaskNotFound
from tests.memory.sides import Apply, Side

# Everything is in steps of five seconds: no decision hangs on how fast the test runs.
LEASE, DEADLINE, BACKOFF, GRACE, RETENTION, DELAY = 10_000, 90_000, 20_000, 30_000, 50_000, 20_000

# -- what is written --------------------------------------------------------------------------------------------------


def new(side: Side, key: str, budget: bool = True, retention: bool = False, later: bool = False) -> NewTask:
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
        notify=GRACE if later else None,
        not_before=int(time.time() * 1000) + 22_000 if later else None,
    )


def a_save(ending: Any, more: int = 0, refund: int = 0, calls: int = 0, items: int = 0, *flags: bool) -> Save:
    notify, forget, progress = flags or (False, False, False)
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
        items=tuple(Item(f"i{number % 2}", str(number)) for number in range(items)),
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


def a_repair(action: Any, status: Any, keeps_turn: bool, notify: bool) -> Repair:
    saves = action in ("mark_done", "migrate")
    save = RepairSave('"mended"', "s", 2, status, "marked", "d2", "2", "other", keeps_turn) if saves else None
    return Repair(action, "ann", '"a note"', GRACE if notify else None, save)


# -- calls ------------------------------------------------------------------------------------------------------------


def there(name: str, key: str, late: int, *args: Any, **kwargs: Any) -> Apply:
    """Call a primitive that names where the task stands."""

    def apply(side: Side) -> Any:
        at = side.at(key, late)
        return None if at is None else getattr(side.engine, name)(at, *args, **kwargs).run()

    return apply


def entered(name: str, key: str, *args: Any) -> Apply:
    """Call a primitive that names the task's id."""
    return lambda side: getattr(side.engine, name)(side.entry(key), *args).run()


def numbered(name: str, key: str, *args: Any) -> Apply:
    """Call a primitive that names the task's number."""

    def apply(side: Side) -> Any:
        record = side.record(key)
        return None if record is None else getattr(side.engine, name)(record.id, *args).run()

    return apply


def leased(key: str, token: bytes) -> Apply:
    return lambda side: side.engine.durable_claim(side.entry(key), token, LEASE).run() is not None


def renewed(key: str, late: int, progress: bool) -> Apply:
    def apply(side: Side) -> Any:
        at = side.at(key, late)
        report = (0.25, "more") if progress else (None, None)
        return at and side.engine.task_renew([Renewal(at.task, at.fence, LEASE, *report)]).run()

    return apply


def waking(side: Side, key: str, how: str) -> Waking | None:
    """Return what a claim that wakes the task would name: rightly, or in one of the ways to be wrong."""
    record = side.record(key)
    if record is None or how == "none":
        return None
    letter = None if how == "time-out" else side.letter(key, record.waiting_for or "go")
    if how == "used" and side.letters:
        letter = side.letters[0]
    return Waking(record.signal_seq - (how == "stale"), letter)


def woken(name: str, key: str, late: int, how: str, **kwargs: Any) -> Apply:
    """Call a primitive that may end a wait."""

    def apply(side: Side) -> Any:
        at = side.at(key, late)
        kwargs["waking"] = waking(side, key, how)
        args = ("w", LEASE) if name == "task_claim" else ()
        return None if at is None else getattr(side.engine, name)(at, *args, **kwargs).run()

    return apply


def waited(key: str, late: int, delay: int | None, name: str, sees: bool, last: bool, *save: Any) -> Apply:
    """Commit a wait that has seen all requests, or none of them."""

    def apply(side: Side) -> Any:
        at, record = side.at(key, late), side.record(key)
        if at is None or record is None:
            return None
        wait = Wait(delay, name, '{"form":""}' if name else "", record.signal_seq if sees else 0)
        return side.engine.task_commit(at, replace(a_save("wait", *save), wait=wait, last=last)).run()

    return apply


def waited_again(key: str, late: int, stale: bool) -> Apply:
    def apply(side: Side) -> Any:
        at, record = side.at(key, late), side.record(key)
        return at and record and side.engine.task_wait_again(at, record.signal_seq - stale).run()

    return apply


def forked(key: str, source: str, through: int | None, *how: bool) -> Apply:
    def apply(side: Side) -> Any:
        record = side.record(source)
        task = 0 if record is None else record.id
        try:
            return side.engine.task_fork(new(side, key, *how), Fork(task, through, 1)).run()
        except TaskNotFound:
            return "gone"

    return apply


def letter(number: int) -> Apply:
    return lambda side: side.letters and side.engine.task_letter(side.letters[number % len(side.letters)]).run()


def known(side: Side, does: bool) -> list[str]:
    return [side.store.names[-1]] if does else []


def opened(key: str) -> Apply:
    """Tell the open tasks of this namespace from one on."""

    def apply(side: Side) -> Any:
        record = side.record(key)
        return [
            each
            for each in side.engine.tasks_open(record.id - 1 if record else 0, 99).run()
            if each.namespace == side.namespace
        ]

    return apply
