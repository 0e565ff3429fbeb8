"""A durable task as a store keeps it: what is written of a new one, and what one read shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

from ..keys import Entry
from .checkpoint import BudgetUse, Checkpoint
from .position import Position

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

RING = 20
"""How many of its last saves a task keeps."""

Status: TypeAlias = Literal["ready", "running", "completed", "cancelled"]

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
    not_before: int | None = None
    """The instant, in epoch milliseconds, before which the first step is not entered; None: it is due at once."""


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
    waiting_for: str
    wait_spec: str
    signal_seq: int
    received: int | None
    forked_from: int | None
    mismatch_since: datetime | None
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
    def position(self) -> Position:
        """Return the row version that this read saw."""
        return Position(self.id, self.fence, self.save_seq)

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
        """Return whether the task is parked, or must not be woken yet, though it looks due.

        One that waits for a signal is not judged by this: its mailbox tells.
        """
        if self.waiting_for and not self.parked:
            return False
        return self.parked or (self.resume_at is not None and self.resume_at > self.now and not self.overdue)

    @property
    def timed_out(self) -> bool:
        """Return whether a sleep, or the time-out of a wait, is over."""
        return self.resume_at is not None and self.resume_at <= self.now

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
            each = self.max_calls_per_attempt
            budget = BudgetUse(
                max_calls=self.max_calls,
                reserved_calls=self.reserved_calls,
                max_calls_per_attempt=self.max_calls if each is None else each,
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
