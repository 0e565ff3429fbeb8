"""What an operator does to a task that nobody holds. Each repair is recorded in the task's journal, with its author."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import codec
from ..contracts.history import Repair, RepairSave
from ..contracts.taskrecord import TaskRecord
from ..exceptions import RepairRefused, TaskBusy, TaskFinished
from ..flow import Call, Flow
from . import events
from .differences import outline_of
from .migrating import migrated
from .place import Place
from .requests import sender_of

_TRIES = 5

_USED_UP = {"attempts_exhausted": "attempts", "budget_exhausted": "model calls"}


def retry_now(place: Place, sender: str) -> Flow[TaskRecord]:
    """Make the task due now: un-park it, or end its back-off; a sleep or a wait is never cut short.

    A task that is parked because something is used up would be parked again at once: it wants a grant.
    """

    def decide(record: TaskRecord, notify: int | None) -> Repair:
        rests = record.resume_at is not None and record.resume_at > record.now
        if record.status == "ready" and (record.waiting_for or rests) and not record.parked:
            what = "waits for a signal" if record.waiting_for else "sleeps"
            raise RepairRefused(f"the task {record.key!r} {what} and is not parked: there is nothing to retry")
        if record.parked and record.reason in _USED_UP:
            raise RepairRefused(f"the task {record.key!r} has used up its {_USED_UP[record.reason]}: grant more")
        return Repair("retry_now", by, "null", notify)

    by = sender_of(sender)
    return (yield from _repaired(place, decide))


def mark_done(place: Place, state: Any, sender: str) -> Flow[TaskRecord]:
    """Take the interrupted step for done, with ``state`` as its outcome: the task goes on with the next one."""

    def decide(record: TaskRecord, notify: int | None) -> Repair:
        step = _interrupted(place, record)
        return Repair("mark_done", by, codec.dumps(step), notify, _done(place, record, step, state))

    by = sender_of(sender)
    return (yield from _repaired(place, decide))


def mark_not_done(place: Place, sender: str) -> Flow[TaskRecord]:
    """Take the interrupted step for not done: it is entered again, without being reconciled."""

    def decide(record: TaskRecord, notify: int | None) -> Repair:
        return Repair("mark_not_done", by, codec.dumps(_interrupted(place, record)), notify)

    by = sender_of(sender)
    return (yield from _repaired(place, decide))


def migrate(place: Place, sender: str) -> Flow[TaskRecord]:
    """Carry the task over to the revision that this code has, by the migrations of its definition."""

    def decide(record: TaskRecord, notify: int | None) -> Repair:
        definition = place.known(record)
        if record.revision == definition.revision:
            raise RepairRefused(
                f"the task {record.key!r} is at revision {record.revision!r} already; where its steps have changed, "
                "give the definition a new revision and a migration to it"
            )
        result = migrated(definition, record)
        save = RepairSave(
            state=result.payload,
            step="",
            next_index=result.index,
            status="running" if record.status == "running" and not result.moved else "ready",
            outcome="migrated",
            definition=definition.id,
            revision=definition.revision,
            fingerprint=definition.fingerprint,
            keeps_turn=not result.moved,
        )
        return Repair("migrate", by, codec.dumps(list(result.path)), notify, save)

    by = sender_of(sender)
    return (yield from _repaired(place, decide))


def _repaired(place: Place, decide: Callable[[TaskRecord, int | None], Repair]) -> Flow[TaskRecord]:
    """Decide on the row as it is and change that very version of it; look again where it was another by then."""
    for _ in range(_TRIES):
        record = yield from place.read_driven()
        if record.finished:
            raise TaskFinished(f"the task {record.key!r} has ended already")
        if record.leased:
            raise _busy(record)
        notify = yield from place.notify()
        repair = yield from Call(decide, record, notify)  # a migration may well ask a database
        if (yield from place.tasks.task_repair(record.position, repair)):
            record = yield from place.read()
            if record.finished:
                yield from events.task_finished(place.definition, place.store, record)
            elif notify is not None and record.due:
                yield from place.hint(record.id)
            return record
    raise _busy(record)


def _busy(record: TaskRecord) -> TaskBusy:
    return TaskBusy(f"a worker is at the task {record.key!r}: repair it when it rests, or cancel it")


def _interrupted(place: Place, record: TaskRecord) -> str:
    """Return the name of the step that was interrupted, or refuse."""
    if record.status != "running":
        raise RepairRefused(f"no step of the task {record.key!r} was interrupted: there is nothing to mark")
    return place.name_of(record, record.step_index)


def _done(place: Place, record: TaskRecord, step: str, state: Any) -> RepairSave:
    definition = place.definition
    if definition is not None and definition.fingerprint == record.fingerprint:
        payload, total = definition.encode_any(state), len(definition.steps)
    else:  # only the code that made it can judge the state: when it takes the task up
        outline = outline_of(record.fingerprint)
        if outline is None:
            raise RepairRefused(f"the steps of the task {record.key!r} were not noted: mark it where its code runs")
        payload, total = codec.dumps(state), len(outline)
    after = record.step_index + 1
    return RepairSave(
        state=payload,
        step=step,
        next_index=after,
        status="completed" if after >= total else "ready",
        outcome="marked_done",
        definition=record.definition,
        revision=record.revision,
        fingerprint=record.fingerprint,
    )
