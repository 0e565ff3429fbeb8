"""What the durable engine asks of a store: the primitives, and what they are given and answer.

Every change names the fence that its author holds (or has just read), and most name ``save_seq`` too: a write that
comes too late finds no row, changes nothing, and is told so with None.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ..flow import Action, Call
from ..keys import Entry
from .history import HistoryPrimitives
from .journal import Item, JournalPrimitives
from .mailbox import DueTask, MailboxPrimitives
from .position import Position
from .taskrecord import NewTask, Status, TaskRecord


@dataclass(frozen=True, slots=True)
class Waking:
    """Hold what the claim of a task that waits names: the row is left alone if more was asked of it meanwhile."""

    signal_seq: int
    received: int | None
    """The mailbox line to be marked as used and kept as received; None: the wait has timed out."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Answer a claim or an entry: whose fence it is now, and what it spent."""

    fence: int
    attempts: int
    now: datetime


@dataclass(frozen=True, slots=True)
class Save:
    """Hold what a commit writes. ``ending`` is what the worker means to do next; the row may decide otherwise."""

    ending: Literal["enter", "stop", "wait", "completed", "failed"]
    state: str
    step: str
    turn: int
    attempts: int
    outcome: str
    milliseconds: int
    worker: str
    next_index: int
    next_turn: int
    more_attempts: int
    """1 for a repeat that is a turn, not a retry; else 0."""
    refund: int
    """Model calls that were reserved for this step and not made."""
    calls: int
    """Model calls to reserve for the step to be entered."""
    lease: int
    notify: int | None
    reason: str = ""
    progress: float | None = None
    progress_text: str | None = None
    forget_through: int | None = None
    """Drop the saves up to this one: they no longer fit."""
    last: bool = False
    """No step is left: a task that is cancelled or overdue by now has completed all the same."""
    wait: Wait | None = None
    """What the task waits for, where ``ending`` is ``wait``."""
    items: tuple[Item, ...] = ()
    """Lines for the journal, with the number of this save."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold what a save waits for: a signal, a time, or whichever comes first."""

    delay: int | None
    """The milliseconds of the sleep or of the time-out; None: there is none."""
    name: str = ""
    """The signal; empty: a sleep."""
    spec: str = ""
    """JSON text that says what may answer it."""
    seen: int = 0
    """The ``signal_seq`` up to which the mailbox holds no such signal: if the row's is another, it is due at once."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Answer a commit: what the row decided."""

    status: Status
    reason: str
    fence: int
    attempts: int
    cancel_requested: str | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Failure:
    """Hold the record of a step, or a reconcile, that raised."""

    error: str
    backoff: int
    cancelled: bool
    """The step left because of a cancel or the deadline: the task ends, with its old state."""
    reason: str
    """The reason where it ends."""
    open_step: str
    """What is said of the open step behind the reason of a cancel that comes true now."""
    keep_claims: bool
    """A reconcile that raises leaves the count that parks it at last."""
    notify: int | None
    progress: float | None = None
    progress_text: str | None = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """Ask for one lease to be renewed, and carry the progress on."""

    task: int
    fence: int
    lease: int
    progress: float | None
    progress_text: str | None


@dataclass(frozen=True, slots=True)
class Renewed:
    """Answer a renewal."""

    held: bool
    cancel_requested: str | None = None


@dataclass(frozen=True, slots=True)
class OpenTask:
    """Show a task that has not ended, for a look at all of them."""

    id: int
    namespace: str
    key: str
    definition: str
    revision: str
    fingerprint: str
    step_index: int
    status: Status
    reason: str
    state: str | None


class TaskPrimitives(MailboxPrimitives, JournalPrimitives, HistoryPrimitives):
    """Be what a backend fills in to carry the engine. Errors texts and names are cleaned by the caller."""

    # -- the life of a task -------------------------------------------------------------------------------------------

    @abstractmethod
    def task_start(self, new: NewTask) -> Action[bool]:
        """Insert the task with its first state; False: the id is taken, and nothing was written."""

    @abstractmethod
    def task_read(self, entry: Entry) -> Action[TaskRecord | None]:
        """Read the task; None: no such id."""

    @abstractmethod
    def task_sizes(self, task: int) -> Action[list[tuple[int, int]]]:
        """Return (save_seq, bytes) of the kept saves."""

    @abstractmethod
    def task_claim(
        self, at: Position, worker: str, lease: int, *, enter: bool, calls: int, waking: Waking | None = None
    ) -> Action[Grant | None]:
        """Take the lease of a due task and, with ``enter``, enter its step; None: the row says no (any more).

        A task that waits is claimed only with ``waking``, which ends the wait and marks the signal as used.
        """

    @abstractmethod
    def task_enter(self, at: Position, *, calls: int) -> Action[Grant | None]:
        """Enter the step under a lease already held: its reconcile has found that it was not done."""

    @abstractmethod
    def task_commit(self, at: Position, save: Save) -> Action[Committed | None]:
        """Save a state and decide, in one atomic step, what comes next; None: the fence is stale."""

    @abstractmethod
    def task_fail(self, at: Position, failure: Failure) -> Action[Status | None]:
        """Record a failure and let go; None: the fence is stale."""

    @abstractmethod
    def task_renew(self, renewals: Sequence[Renewal]) -> Action[list[Renewed]]:
        """Renew leases, all in one go."""

    @abstractmethod
    def task_atomic(self, at: Position, work: Callable[[], Save]) -> Action[Committed | None]:
        """Do ``work`` in a transaction on the store's own database, and commit the save it returns as its last part.

        All or nothing: whatever ``work`` wrote goes with it. None: the fence is stale, all is rolled back. What
        ``work`` raises is raised, all rolled back; so is ``TransactionConflict`` where the database gave the
        transaction up. An ``on_commit`` callback that raises is logged, not raised: the save stands by then.
        ``NotSupported``: this store joins no transaction.
        """

    def task_isolated(self) -> Action[bool]:
        """Return whether a transaction here is given up where its task's row is written meanwhile, as by a renewal."""
        return Call(bool)

    # -- decided without a lease --------------------------------------------------------------------------------------

    @abstractmethod
    def task_cancel(self, at: Position, reason: str) -> Action[bool]:
        """End a task that nobody holds as cancelled; False: the row says no (any more)."""

    @abstractmethod
    def task_park(self, at: Position, reason: str, *, ready: bool = False) -> Action[bool]:
        """Park a due task, or the lease's own; ``ready``: its open step is known not to be done."""

    @abstractmethod
    def task_restore(self, at: Position) -> Action[bool]:
        """Put back what a lapsed lease of the contract hid: that the task is parked, or not to be woken yet."""

    @abstractmethod
    def task_let_go(self, at: Position, reason: str, note: str, *, pause: int, grace: int) -> Action[bool]:
        """Leave a due task to code that can continue it: due again after ``pause``; parked once ``grace`` is over."""

    @abstractmethod
    def task_wait_again(self, at: Position, signal_seq: int) -> Action[bool]:
        """Let a waiting task that woke for nothing wait on; False: more was asked of it, or it has changed."""

    @abstractmethod
    def task_complete(self, at: Position, waking: Waking | None) -> Action[bool]:
        """Complete a task that nobody holds, whose last step has slept or waited to its end; False: look again."""

    # -- the sweep ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def tasks_notify(self, known: Sequence[str], grace: int, limit: int) -> Action[list[DueTask]]:
        """Take due tasks of the known fingerprints that no message is on its way to, and mark them as messaged."""

    @abstractmethod
    def tasks_due(self, known: Sequence[str], limit: int) -> Action[list[DueTask]]:
        """Return due tasks of the known fingerprints, whether messaged or not."""

    @abstractmethod
    def tasks_open(self, after: int, limit: int) -> Action[list[OpenTask]]:
        """Return tasks of the engine that have not ended, in the order of their ids, those above ``after``."""

    @abstractmethod
    def task_unnotify(self, task: int) -> Action[None]:
        """Take back the mark: the message could not be sent."""

    @abstractmethod
    def tasks_diverge(self, known: Sequence[str], grace: int) -> Action[list[DueTask]]:
        """Note due tasks of unknown fingerprints, park those noted for ``grace``; return those that were parked."""

    @abstractmethod
    def tasks_revive(self, known: Sequence[str]) -> Action[int]:
        """Un-park diverged tasks whose fingerprint is known again; return how many.

        Forgets the note on those known that were due when it was made, and are since: they stand in a queue.
        """

    @abstractmethod
    def tasks_purge(self, retention: int, limit: int) -> Action[int]:
        """Remove finished tasks, and locked ids that were never saved, whose time is over; return how many."""

    @abstractmethod
    def job_started(self, kind: str) -> Action[None]:
        """Remember that a sweep or purge of this store has started."""

    @abstractmethod
    def job_succeeded(self, kind: str) -> Action[None]:
        """Remember that it has succeeded."""
