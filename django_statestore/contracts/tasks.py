"""What the durable engine asks of a store: the records and the primitives.

Every change names the fence that its author holds (or has just read), and most name ``save_seq`` too: a write that
comes too late finds no row, changes nothing, and is told so with None.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

from ..flow import Action
from ..keys import Entry
from ..renewer import RenewingBackend
from .checkpoint import BudgetUse, Checkpoint

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

RING = 20
"""How many of its last saves a task keeps."""

Status: TypeAlias = Literal["ready", "running", "completed", "cancelled"]
Asked: TypeAlias = Literal["applied", "stored", "refused"]
"""What became of a request: done, waiting for the caller's commit, or too late."""

FINISHED = ("completed", "cancelled")

PARKED = ("attempts_exhausted", "budget_exhausted", "crash_loop", "reconcile_unknown", "state_invalid", "diverged")
"""Why a task may wait for an operator instead of a worker."""


@dataclass(frozen=True, slots=True)
class NewTask:
    """Hold what ``task_start`` writes. Durations are milliseconds."""

    entry: Entry
    definition: str
    revision: str
    fingerprint: str
    start_digest: bytes
    state: str
    max_attempts: int
    deadline: int
    max_calls: int | None
    max_calls_per_attempt: int | None
    retention: int | None
    notify: int | None
    """How long the sweep may trust that a message is on its way; None: no message is sent."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """Hold one read of a task: its row, its newest state, and the store's clock at that moment."""

    id: int
    namespace: str
    key: str
    driven: bool
    definition: str
    revision: str
    fingerprint: str
    start_digest: bytes | None
    status: Status
    step_index: int
    turn: int
    attempts: int
    max_attempts: int
    deadline: datetime | None
    max_calls: int | None
    reserved_calls: int
    max_calls_per_attempt: int | None
    reason: str
    save_seq: int
    fence: int
    claims: int
    worker: str
    wake_at: datetime | None
    resume_at: datetime | None
    cancel_requested: str | None
    progress: float | None
    progress_text: str
    last_error: str
    created_at: datetime
    finished_at: datetime | None
    state: str | None
    """None: the id was locked but never saved."""
    saved_attempts: int
    """The attempts that had been spent when the newest state was saved."""
    saved_by: str
    """The worker that saved it."""
    now: datetime

    @property
    def finished(self) -> bool:
        return self.status in FINISHED

    @property
    def parked(self) -> bool:
        """Return whether the task waits for an operator; not where it was asked to end."""
        return not self.finished and bool(self.reason) and self.cancel_requested is None

    @property
    def leased(self) -> bool:
        """Return whether somebody holds a living lease."""
        return bool(self.worker) and self.wake_at is not None and self.wake_at > self.now

    @property
    def due(self) -> bool:
        return self.wake_at is not None and self.wake_at <= self.now

    @property
    def restful(self) -> bool:
        """Return whether the task is parked, or must not be woken yet, though it looks due."""
        return self.parked or (self.resume_at is not None and self.resume_at > self.now and not self.overdue)

    @property
    def overdue(self) -> bool:
        """Return whether its deadline has passed."""
        return self.deadline is not None and self.deadline <= self.now

    @property
    def attempt(self) -> int:
        """Return how often the open step was entered since the newest save."""
        return self.attempts - self.saved_attempts

    def checkpoint(self, state: Any) -> Checkpoint:
        """Return the checkpoint that this row stands for; ``state`` is the plain value of its state."""
        assert self.deadline is not None  # only an id that was locked and never saved has none
        budget = None
        if self.max_calls is not None:
            budget = BudgetUse(
                max_calls=self.max_calls,
                reserved_calls=self.reserved_calls,
                max_calls_per_attempt=self.max_calls_per_attempt or self.max_calls,
            )
        return Checkpoint(
            definition_id=self.definition,
            revision=self.revision,
            next_step_index=self.step_index,
            attempt_count=self.attempts,
            max_attempts=self.max_attempts,
            deadline_at_ms=(self.deadline - _EPOCH) // timedelta(milliseconds=1),
            status=self.status,
            state=state,
            model_budget=budget,
        )


@dataclass(frozen=True, slots=True)
class Position:
    """Name the very row version that a change was decided on."""

    task: int
    fence: int
    save_seq: int


@dataclass(frozen=True, slots=True)
class Grant:
    """Answer a claim or an entry: whose fence it is now, and what it spent."""

    fence: int
    attempts: int
    now: datetime


@dataclass(frozen=True, slots=True)
class Save:
    """Hold what a commit writes. ``ending`` is what the worker means to do next; the row may decide otherwise."""

    ending: Literal["enter", "stop", "completed", "failed"]
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
class DueTask:
    """Name a task that wants a message."""

    id: int
    namespace: str
    key: str
    fingerprint: str


class TaskPrimitives(RenewingBackend):
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
    def task_claim(self, at: Position, worker: str, lease: int, *, enter: bool, calls: int) -> Action[Grant | None]:
        """Take the lease of a due task and, with ``enter``, enter its step; None: the row says no (any more)."""

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
    def task_request_cancel(self, entry: Entry, reason: str, sender: str) -> Action[Asked]:
        """Store the request and, unless the caller's transaction is open, apply it."""

    @abstractmethod
    def task_apply_requests(self, entry: Entry) -> Action[None]:
        """Apply to the task's row what was stored inside a transaction."""

    # -- the sweep ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def tasks_notify(self, known: Sequence[str], grace: int, limit: int) -> Action[list[DueTask]]:
        """Take due tasks of the known fingerprints that no message is on its way to, and mark them as messaged."""

    @abstractmethod
    def tasks_due(self, known: Sequence[str], limit: int) -> Action[list[DueTask]]:
        """Return due tasks of the known fingerprints, whether messaged or not."""

    @abstractmethod
    def task_unnotify(self, task: int) -> Action[None]:
        """Take back the mark: the message could not be sent."""

    @abstractmethod
    def tasks_diverge(self, known: Sequence[str], grace: int) -> Action[int]:
        """Note due tasks of unknown fingerprints, park those noted for ``grace``; return how many were parked."""

    @abstractmethod
    def tasks_revive(self, known: Sequence[str]) -> Action[int]:
        """Un-park diverged tasks whose fingerprint is known again."""

    @abstractmethod
    def tasks_with_requests(self, age: int, limit: int) -> Action[list[DueTask]]:
        """Return tasks with requests that nobody has applied for ``age``."""

    @abstractmethod
    def tasks_purge(self, retention: int, limit: int) -> Action[int]:
        """Remove finished tasks, and locked ids that were never saved, whose time is over; return how many."""

    @abstractmethod
    def job_started(self, kind: str) -> Action[None]:
        """Remember that a sweep or purge of this store has started."""

    @abstractmethod
    def job_succeeded(self, kind: str) -> Action[None]:
        """Remember that it has succeeded."""
