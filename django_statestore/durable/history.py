"""What is kept of a task's past: its saves, the items and lines of its journal, and the requests to it."""

from __future__ import annotations

from typing import Any

from .. import codec
from ..contracts.arguments import whole
from ..contracts.history import SavedStep
from ..contracts.journal import JournalLine
from ..contracts.mailbox import Letter
from ..exceptions import SnapshotGone
from ..flow import Flow
from ..keys import check_text
from .comparing import Difference, compare
from .place import Place

LINES = 1000
"""How many lines of the journal are returned at once, if not told otherwise."""


def saves(place: Place) -> Flow[list[SavedStep]]:
    """Return the kept saves, the oldest first."""
    record = yield from place.read()
    return (yield from place.tasks.task_history(record.id))


def payload_after(place: Place, save: int) -> Flow[str]:
    """Return the payload of the state after a save; ``SnapshotGone``: it is not kept."""
    whole("save", save)
    record = yield from place.read()
    payload = yield from place.tasks.task_saved(record.id, save)
    if payload is None:
        raise gone(place, f"save {save}")
    return payload


def gone(place: Place, what: str) -> SnapshotGone:
    """Return the error that says what is not kept."""
    return SnapshotGone(f"{what} of the task {place.entry.key!r} is not kept (any more): history() lists what is")


def difference_of(place: Place, a: int, b: int) -> Flow[list[Difference]]:
    """Return where the states after two saves differ, as plain values."""
    before, after = (yield from payload_after(place, a)), (yield from payload_after(place, b))
    return compare(codec.loads(before), codec.loads(after))


def lines(place: Place, after: int, limit: int) -> Flow[list[JournalLine]]:
    """Return lines of the journal with numbers above ``after``, in order."""
    whole("after", after)
    whole("limit", limit, least=1)
    record = yield from place.read()
    return (yield from place.tasks.task_lines(record.id, after, limit))


def letters(place: Place) -> Flow[list[Letter]]:
    """Return the requests to the task, in the order in which they were made."""
    record = yield from place.read()
    return (yield from place.tasks.task_letters(record.id))


def items(place: Place, name: str) -> Flow[list[Any]]:
    """Return the values that were appended under ``name``, the oldest first."""
    check_text(name, "the name of items")
    record = yield from place.read()
    return [codec.loads(value) for value in (yield from place.tasks.task_items(record.id, name))]
