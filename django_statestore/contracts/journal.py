"""The journal of a task: append-only lines, numbered from 1, of three kinds.

``item``: part of its state that ``ctx.append`` added, with the save that committed it. ``call``: the result of a
finished ``ctx.call``, with the save that was the newest when it was made; the next save ends its use. ``repair``: what
an operator did, and who.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from datetime import datetime

from ..flow import Action
from ..renewer import RenewingBackend
from .position import Position


@dataclass(frozen=True, slots=True)
class Item:
    """Hold one item to append; ``value`` is codec text."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class CallLine:
    """Hold the result of one finished call: the ``occurrence``-th of its name (from 1) since the newest save."""

    name: str
    occurrence: int
    arguments: bytes
    """A digest of 32 bytes of what the call was given."""
    value: str


@dataclass(frozen=True, slots=True)
class JournalLine:
    """Show one line to people."""

    number: int
    kind: str
    name: str
    occurrence: int
    save_seq: int
    value: str
    sender: str
    created_at: datetime


class JournalPrimitives(RenewingBackend):
    """Be the part of a backend that keeps the journal. Items are written by the commit, repairs by the repair."""

    @abstractmethod
    def task_journal(self, at: Position, line: CallLine) -> Action[bool]:
        """Write the result of a call, locking the task's row by its fence; False: the fence is stale."""

    @abstractmethod
    def task_calls(self, task: int, save_seq: int) -> Action[list[CallLine]]:
        """Return the calls that were finished since that save, in order."""

    @abstractmethod
    def task_items(self, task: int, name: str) -> Action[list[str]]:
        """Return the items appended under ``name``, the oldest first."""

    @abstractmethod
    def task_lines(self, task: int, after: int, limit: int) -> Action[list[JournalLine]]:
        """Return lines of every kind with numbers above ``after``, in order."""
