"""How a task that was asked to end does so where no worker holds it."""

from __future__ import annotations

from collections.abc import Callable

from ..contracts.tasks import TaskPrimitives
from ..flow import Flow
from ..keys import Entry
from .opening import ending_of, ending_reason, position

_TRIES = 20


def end_if_free(tasks: TaskPrimitives, entry: Entry, step_name: Callable[[int], str]) -> Flow[None]:
    """End the task if it was asked to and nobody holds it, whatever code made it; its holder ends it otherwise."""
    for _ in range(_TRIES):
        record = yield from tasks.task_read(entry)
        if record is None or record.finished or record.leased or ending_of(record) is None:
            return
        if (yield from tasks.task_cancel(position(record), ending_reason(record, step_name(record.step_index)))):
            return
