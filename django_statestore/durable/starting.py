"""How a task comes to be: its row, the event, and the message that tells a worker of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from .. import conf, flow
from ..contracts.taskrecord import NewTask, TaskRecord
from ..exceptions import InvalidArgument, InvalidArgumentType, NotSupported, TaskExists
from ..flow import Action, Flow
from ..ttl import Duration, milliseconds
from . import dispatch, events
from .definition import Definition
from .place import Place

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def new_task(
    definition: Definition[Any],
    place: Place,
    payload: str,
    digest: bytes,
    *,
    deadline: Duration | None = None,
    at: datetime | None = None,
) -> NewTask:
    """Return a new task of a definition with its full limits, or refuse what is wrong with it."""
    budget = definition.model_budget
    lasts = definition.limits.deadline if deadline is None else milliseconds(deadline, "deadline")
    for step in definition.steps:
        if step.replay == "atomic" and not place.store.backend.joins_transactions:
            raise NotSupported(
                f"step {step.name!r} of {definition.id!r} is atomic, but the store {place.store.alias!r} joins no "
                "transaction: give the definition a store on a database"
            )
    return NewTask(
        entry=place.entry,
        definition=definition.id,
        revision=definition.revision,
        fingerprint=definition.fingerprint,
        start_digest=digest,
        state=payload,
        max_attempts=definition.max_attempts,
        deadline=lasts,
        max_calls=budget.max_calls if budget else None,
        max_calls_per_attempt=budget.per_attempt if budget else None,
        retention=definition.limits.retention,
        notify=None,
        not_before=None if at is None else _not_before(at, lasts),
    )


def _not_before(at: datetime, deadline: int) -> int:
    if not isinstance(at, datetime):
        raise InvalidArgumentType(f"at is a {type(at).__name__}, not a datetime: give an instant, with its time zone")
    if at.utcoffset() is None:
        raise InvalidArgument("at is a naive datetime: give it a time zone")
    instant = -((_EPOCH - at) // _MILLISECOND)  # rounded up: never early
    if instant >= _now() + deadline:
        raise InvalidArgument("at is not before the deadline, which counts from now: give a longer deadline")
    return max(instant, 0)


def begin(place: Place, new: NewTask, insert: Callable[[NewTask], Action[bool]]) -> Flow[TaskRecord]:
    """Make the task by ``insert``, or find the one that it made before; ``TaskExists``: the id is another's.

    Inside a block on another database it is made when that has committed, and the row to be expected is returned.
    """
    if (yield from place.tasks.task_deferred(lambda: _later(place, new, insert))):
        return _expected(new)
    return (yield from _started(place, new, insert))


def _later(place: Place, new: NewTask, insert: Callable[[NewTask], Action[bool]]) -> None:
    flow.run(_started(place, new, insert))


def _started(place: Place, new: NewTask, insert: Callable[[NewTask], Action[bool]]) -> Flow[TaskRecord]:
    soon = new.not_before is None or new.not_before <= _now() + conf.get().sweep_every
    tells = yield from place.tasks.task_hints()
    hint = soon and tells and dispatch.active(place.store.alias)
    new = replace(new, notify=conf.get().notify_grace if hint else None)
    made = yield from insert(new)
    record = yield from place.tasks.task_read(new.entry)
    if record is None:  # the id was taken, by an old task that the purge has just removed
        made = yield from insert(new)
        record = yield from place.read()
    check_same(record, new.start_digest)
    if made:
        if tells:
            yield from place.after_commit(lambda: _announced(place, record, hint=hint))
        else:
            yield from events.task_started(place.definition, place.store, record)
    return record


def check_same(record: TaskRecord, digest: bytes) -> None:
    """Refuse a task that was not started in this very way."""
    if record.start_digest != digest:
        raise TaskExists(f"the id {record.key!r} belongs to a task with another definition or initial state")


def _announced(place: Place, record: TaskRecord, *, hint: bool) -> Flow[None]:
    yield from events.task_started(place.definition, place.store, record)
    if hint:
        early = record.resume_at - record.now if record.resume_at else timedelta(0)
        yield from place.hint(record.id, max(0, -(-early // _MILLISECOND)))


def _now() -> int:
    """Return this machine's clock in epoch milliseconds: near enough to choose by, never to decide by."""
    return int(time.time() * 1000)


def _expected(new: NewTask) -> TaskRecord:
    """Return the row that a deferred start will write, as far as it is known."""
    now = datetime.now(UTC)
    resume_at = None if new.not_before is None else _EPOCH + new.not_before * _MILLISECOND
    return TaskRecord(
        id=0,
        namespace=new.entry.namespace,
        key=new.entry.key,
        driven=True,
        definition=new.definition,
        revision=new.revision,
        fingerprint=new.fingerprint,
        start_digest=new.start_digest,
        status="ready",
        step_index=0,
        turn=1,
        attempts=0,
        max_attempts=new.max_attempts,
        deadline=now + timedelta(milliseconds=new.deadline),
        max_calls=new.max_calls,
        reserved_calls=0,
        max_calls_per_attempt=new.max_calls_per_attempt,
        reason="",
        save_seq=0,
        fence=0,
        claims=0,
        worker="",
        wake_at=resume_at or now,
        resume_at=resume_at,
        waiting_for="",
        wait_spec="",
        signal_seq=0,
        received=None,
        forked_from=None,
        mismatch_since=None,
        cancel_requested=None,
        progress=None,
        progress_text="",
        last_error="",
        created_at=now,
        finished_at=None,
        state=new.state,
        saved_attempts=0,
        saved_by="",
        now=now,
    )
