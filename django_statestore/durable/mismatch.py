"""How a task is left to code that can continue it."""

from __future__ import annotations

from .. import conf
from ..contracts.taskrecord import TaskRecord
from ..flow import Flow
from . import events
from .ending import end_if_free
from .place import Place

_PAUSE = 60_000
"""Milliseconds after which the task is due again."""


def let_go(place: Place, record: TaskRecord, reason: str, note: str) -> Flow[None]:
    """Leave a due task with a note, and park it for ``reason`` where nobody could continue it for ``MISMATCH_GRACE``.

    One that was asked to end does so: that takes no code which can continue it.
    """
    if record.cancel_requested is not None:
        yield from end_if_free(place)
        return
    grace = conf.get().mismatch_grace
    gone = yield from place.tasks.task_let_go(record.position, reason, note, pause=_PAUSE, grace=grace)
    if gone and record.mismatch_since is not None:  # the first look never parks
        left = yield from place.tasks.task_read(place.entry)
        if left is not None and left.parked:
            yield from events.task_parked(place.definition, place.store, left)
