"""Requests to a task: signals, cancels and grants, as the engine asks a store to keep and to apply them.

A request is a line in the task's mailbox. It is *applied* when the task's row has taken note of it, which deals its
``seq``; inside a caller's transaction it is only stored, and applied once that has committed, or by the sweep.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from ..flow import Action
from ..keys import Entry
from ..renewer import RenewingBackend

Answered: TypeAlias = Literal["applied", "stored", "known", "refused"]
"""What became of a request: done; waiting for the caller's commit; sent before under the same key; or too late."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold what a grant adds: attempts, model calls, and a deadline so many milliseconds from now, if that is later."""

    attempts: int = 0
    model_calls: int = 0
    deadline: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """Hold one request. ``name`` is a signal's name or a cancel's reason; ``payload`` is codec text.

    ``key`` deduplicates among all requests to a task. ``notify``: how long the sweep may trust, should the request
    make the task due, that its author sends a message; None: no message is sent.
    """

    kind: Literal["signal", "cancel", "grant"]
    name: str = ""
    payload: str = "null"
    key: str | None = None
    sender: str = ""
    limits: Limits = Limits()
    notify: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request. ``woken``: it made the task due, so a message may be sent."""

    answered: Answered
    task: int = 0
    woken: bool = False


@dataclass(frozen=True, slots=True)
class Mail:
    """Hold one signal as it was sent; ``payload`` is codec text."""

    id: int
    name: str
    payload: str
    sender: str
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class Letter:
    """Show one request to people: without its payload."""

    kind: str
    name: str
    sender: str
    sent_at: datetime
    seq: int | None
    used_at: datetime | None
    dropped: bool


@dataclass(frozen=True, slots=True)
class DueTask:
    """Name a task that wants a message."""

    id: int
    namespace: str
    key: str
    fingerprint: str


class MailboxPrimitives(RenewingBackend):
    """Be the part of a backend that keeps requests."""

    @abstractmethod
    def task_request(self, entry: Entry, request: Request) -> Action[Reply]:
        """Store the request and, unless the caller's transaction is open, apply it.

        A signal makes the task due only where it waits for that name. A cancel makes a task due that nobody holds. A
        grant adds to the limits; where nobody holds the task it also raises the fence, clears ``claims`` and reason,
        and makes a parked task due. Cancels and grants also leave a line of kind ``repair`` in the journal.
        """

    @abstractmethod
    def task_apply_requests(self, entry: Entry, notify: int | None) -> Action[Reply]:
        """Apply what was stored inside a transaction, in its order; what came too late is marked as dropped.

        ``refused``: there is no such task.
        """

    @abstractmethod
    def task_mail(self, task: int, name: str) -> Action[Mail | None]:
        """Return the oldest signal of that name that was applied and not used, or None."""

    @abstractmethod
    def task_letter(self, mail: int) -> Action[Mail | None]:
        """Return one signal by its id, used or not."""

    @abstractmethod
    def task_look(self, task: int, name: str) -> Action[tuple[int, bool]]:
        """Return, as of one moment, ``signal_seq`` and whether ``task_mail`` would find a signal."""

    @abstractmethod
    def task_letters(self, task: int) -> Action[list[Letter]]:
        """Return all requests to a task, in the order in which they were stored."""

    @abstractmethod
    def tasks_with_requests(self, age: int, limit: int, after: int = 0) -> Action[list[DueTask]]:
        """Return tasks with requests that nobody has applied for ``age``: ids above ``after``, in their order."""

    # -- the caller's transaction -------------------------------------------------------------------------------------

    @abstractmethod
    def task_deferred(self, write: Callable[[], None]) -> Action[bool]:
        """Leave ``write`` to the commit of a block that is open on another database; False: there is none."""

    @abstractmethod
    def task_hints(self) -> Action[bool]:
        """Return whether ``task_after_commit`` can tell when what is written now becomes visible."""

    @abstractmethod
    def task_after_commit(self, call: Callable[[], None]) -> Action[None]:
        """Do ``call`` when what was written is visible to others: now, or when the open transaction commits."""
