"""How a task ends without another step: it was asked to, or its deadline is over."""

from __future__ import annotations

from dataclasses import replace

from ..contracts.taskrecord import TaskRecord
from ..flow import Flow
from . import events
from .place import Place

_TRIES = 20


def ending_of(record: TaskRecord) -> str | None:
    """Return why the task is to end without another step: a cancel, or its deadline; None: it is not."""
    if record.cancel_requested is not None:
        return record.cancel_requested
    return "deadline_passed" if record.overdue else None


def ending_reason(record: TaskRecord, step_name: str) -> str:
    """Return the reason that an ended task shows; it names a step whose effect may have happened."""
    return f"{ending_of(record)}{open_step(step_name)}" if record.status == "running" else str(ending_of(record))


def open_step(step_name: str) -> str:
    """Return what a reason says of a step whose effect may have happened."""
    return f" (step {step_name!r} was open)"


def end(place: Place, record: TaskRecord) -> Flow[bool]:
    """End the very row that was read, unless somebody holds it; False: it has changed."""
    reason = ending_reason(record, place.name_of(record, record.step_index))
    ended = yield from place.tasks.task_cancel(record.position, reason)
    if ended:
        left = replace(record, status="cancelled", reason=reason, wake_at=None, finished_at=record.now)
        yield from events.task_finished(place.definition, place.store, left)
    return ended


def end_if_free(place: Place) -> Flow[None]:
    """End the task if it is to and nobody holds it, whatever code made it; its holder ends it otherwise."""
    for _ in range(_TRIES):
        record = yield from place.tasks.task_read(place.entry)
        if record is None or record.finished or record.leased or ending_of(record) is None:
            return
        if (yield from end(place, record)):
            return
