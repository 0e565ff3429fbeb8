"""Look at a task by its store and id, whether or not this process knows its code: all values are plain."""

from __future__ import annotations

from typing import Any

from .. import codec, flow
from ..contracts.history import SavedStep
from ..contracts.journal import JournalLine
from ..contracts.mailbox import Letter
from ..durable import history as past
from ..durable.comparing import Difference
from ..durable.differences import differences
from ..durable.waiting import Wait, waiting_of
from ..store import Store
from .repair import place_of


def waiting(store: Store, task_id: str) -> Wait | None:
    """Return the signal that the task waits for, or None."""
    return waiting_of(flow.run(place_of(store, task_id).read()))


def history(store: Store, task_id: str) -> list[SavedStep]:
    """Return the kept saves, the oldest first, without their states."""
    return flow.run(past.saves(place_of(store, task_id)))


def state_after(store: Store, task_id: str, save: int) -> Any:
    """Return the plain state after a save; ``SnapshotGone``: it is not kept."""
    return codec.loads(flow.run(past.payload_after(place_of(store, task_id), save)))


def diff(store: Store, task_id: str, a: int, b: int) -> list[Difference]:
    """Return where the states after two saves differ; ``SnapshotGone``: one is not kept."""
    return flow.run(past.difference_of(place_of(store, task_id), a, b))


def journal(store: Store, task_id: str, *, after: int = 0, limit: int = past.LINES) -> list[JournalLine]:
    """Return lines of the journal with numbers above ``after``, in order."""
    return flow.run(past.lines(place_of(store, task_id), after, limit))


def letters(store: Store, task_id: str) -> list[Letter]:
    """Return the requests to the task, in the order in which they were made."""
    return flow.run(past.letters(place_of(store, task_id)))


def items(store: Store, task_id: str, name: str) -> list[Any]:
    """Return the values that were appended under ``name``, the oldest first."""
    return flow.run(past.items(place_of(store, task_id), name))


def step_differences(store: Store, task_id: str) -> list[str]:
    """Return in words how the steps of this process's code differ from those of the task; none: not at all."""
    place = place_of(store, task_id)
    return [] if place.definition is None else differences(flow.run(place.read()).fingerprint, place.definition)
