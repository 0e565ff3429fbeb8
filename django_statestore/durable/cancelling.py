"""How a task that was asked to end does so where no worker holds it."""

from __future__ import annotations

from dataclasses import replace

from ..flow import Flow
from . import events
from .opening import ending_of, ending_reason, position
from .place import Place

_TRIES = 20


def end_if_free(place: Place) -> Flow[None]:
    """End the task if it was asked to and nobody holds it, whatever code made it; its holder ends it otherwise."""
    for _ in range(_TRIES):
        record = yield from place.tasks.task_read(place.entry)
        if record is None or record.finished or record.leased or ending_of(record) is None:
            return
        reason = ending_reason(record, place.name_of(record, record.step_index))
        if (yield from place.tasks.task_cancel(position(record), reason)):
            ended = replace(record, status="cancelled", reason=reason, wake_at=None, finished_at=record.now)
            yield from events.task_finished(place.definition, place.store, ended)
            return
