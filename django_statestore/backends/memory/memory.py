"""What one backend object keeps, and the lock around it."""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

from .blobs import Blobs, EntryShelf
from .clock import Clock
from .rows import Hold, Value, Window
from .sequences import ListRow, QueueShelf
from .shelf import Shelf, Tidier
from .taskindex import Tasks

_TIDIED = 32


class Memory:
    """Keep the rows of every facet. Whoever looks at or changes any holds ``lock``, for a moment."""

    def __init__(self) -> None:
        self.clock = Clock()
        # Re-entrant, so that a signal handler or finalizer that comes in the middle finds ``busy`` and can be told.
        self.lock = threading.RLock()
        self.busy = False
        self.torn = False
        """An operation was broken off: rows are there or not, but how they are found may be behind."""
        self.kv: Shelf[Value] = Shelf()
        self.handoff: Shelf[Value] = Shelf()
        self.locks: Shelf[Hold] = Shelf()
        self.dedup: Shelf[Window] = Shelf()
        self.lists: Shelf[ListRow] = Shelf()
        self.queues = QueueShelf()
        self.blobs = Blobs()
        self.spool = EntryShelf(self.blobs)
        self.tasks = Tasks(self.blobs)
        self.jobs: dict[str, tuple[int, int | None]] = {}
        """When each kind of maintenance last started and last succeeded."""
        self.last_fence = 0
        self._tidiers: tuple[Tidier, ...] = (
            self.kv.purge,
            self.handoff.purge,
            self.locks.purge,
            self.dedup.purge,
            self.lists.purge,
            self.queues.purge,
            self.blobs.tidy,
            self.tasks.tidy,
        )
        self._turn = 0
        with _forking:
            _memories.add(self)

    def mend(self) -> None:
        """Make anew, out of the rows, all that they are found by."""
        shelves: tuple[Shelf[Any], ...] = (
            self.kv, self.handoff, self.locks, self.dedup, self.lists, self.queues, self.spool,
        )  # fmt: skip
        for shelf in shelves:
            shelf.mend()
        self.tasks.mend()

    def tidy(self, now: int) -> None:
        """Take away some of what is dead, of one facet after the other: more, over all writes, than writes can add."""
        self._turn = (self._turn + 1) % len(self._tidiers)
        self._tidiers[self._turn](now, _TIDIED)


_memories: WeakSet[Memory] = WeakSet()
_forking = threading.RLock()
_held: list[Memory] = []


def _before_fork() -> None:
    """Wait until nobody is in the middle of a change: a child's copy is then whole."""
    _forking.acquire()
    _held.extend(_memories)
    for memory in _held:
        memory.lock.acquire()


def _after_fork_in_parent() -> None:
    for memory in _held:
        memory.lock.release()
    _held.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking
    for memory in _held:
        memory.lock = threading.RLock()  # the others that waited for the old one do not exist here
    _held.clear()
    _forking = threading.RLock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
