"""How a task is opened: one read, the checks in their order, and then claim and entry in one write.

Nothing is written before the code at hand has proved that it can continue the task. The order: definition, revision,
fingerprint, state; then cancel and deadline; then reconciliation, or attempts and model calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from .. import conf
from ..contracts.tasks import Position, TaskPrimitives, TaskRecord
from ..exceptions import (
    DefinitionMismatch,
    FingerprintMismatch,
    OutcomeUnknown,
    RevisionMismatch,
    StateInvalid,
    StoreUnavailable,
    TaskBusy,
    TaskMismatch,
)
from ..flow import Flow
from .definition import Definition
from .lease import TaskLease

if TYPE_CHECKING:
    from .definition import Step

S = TypeVar("S")

_TRIES = 20
_MISMATCH_PAUSE = 60_000


@dataclass(slots=True)
class Opened(Generic[S]):
    """Hold a task that this worker has claimed."""

    record: TaskRecord
    state: S
    lease: TaskLease
    reconciling: bool


def position(record: TaskRecord) -> Position:
    return Position(record.id, record.fence, record.save_seq)


class Opening(Generic[S]):
    """Open one task for one worker."""

    def __init__(
        self, definition: Definition[S], tasks: TaskPrimitives, read: Callable[[], Flow[TaskRecord]], worker: str
    ) -> None:
        self._definition, self._tasks, self._read, self._worker = definition, tasks, read, worker
        self._unanswered: tuple[float, bool] | None = None
        """A claim whose answer was lost: when it was sent, and whether it was made to reconcile."""

    def open(self) -> Flow[TaskRecord | Opened[S]]:
        """Claim the task and enter its step, or return the record that says why there is nothing to do.

        Raises ``TaskMismatch`` where this code cannot continue it and ``TaskBusy`` where another holds it.
        """
        for _ in range(_TRIES):
            record = yield from self._read()
            if record.due and record.restful and record.cancel_requested is None:
                yield from self._tasks.task_restore(position(record))
                continue
            if record.finished or record.parked:
                return record
            state = yield from self._matched(record)
            if self._unanswered and record.leased and record.worker == self._worker:
                return self._opened(record, state, *self._unanswered)
            if record.leased:
                raise TaskBusy(f"the task {record.key!r} is held by a living worker")
            if not record.due:
                return record
            opened = yield from self._decided(record, state)
            if opened is not None:
                return opened
        raise StoreUnavailable("the task changes faster than it can be claimed: try again")

    def _decided(self, record: TaskRecord, state: S) -> Flow[Opened[S] | None]:
        """Do what the row calls for; None: look again, the row has changed."""
        step = self._definition.steps[record.step_index]
        interrupted = record.status == "running"
        if ending_of(record) is not None:
            yield from self._tasks.task_cancel(position(record), ending_reason(record, step.name))
            return None
        reconciling = interrupted and step.replay == "reconcile"
        parking = self._parking(record, step, reconciling)
        if parking:
            yield from self._tasks.task_park(position(record), parking)
            return None
        return (yield from self._claimed(record, state, step, reconciling))

    def _parking(self, record: TaskRecord, step: Step[S], reconciling: bool) -> str:
        """Return the reason for which the task must wait for an operator, or ``""``."""
        if record.claims >= conf.get().max_claims:
            return "reconcile_unknown" if reconciling else "crash_loop"
        return "" if reconciling else shortage(record, step)

    def _claimed(self, record: TaskRecord, state: S, step: Step[S], reconciling: bool) -> Flow[Opened[S] | None]:
        started, lease = time.monotonic(), conf.get().lease
        calls = 0 if reconciling else step.model_calls
        try:
            grant = yield from self._tasks.task_claim(
                position(record), self._worker, lease, enter=not reconciling, calls=calls
            )
        except OutcomeUnknown:
            self._unanswered = started, reconciling
            return None  # the row will tell whether it is ours
        if grant is None:
            return None
        record = replace(
            record,
            fence=grant.fence,
            attempts=grant.attempts,
            reserved_calls=record.reserved_calls + calls,
            status="running",
            claims=record.claims + 1,
            worker=self._worker,
            now=grant.now,
        )
        return self._opened(record, state, started, reconciling)

    def _opened(self, record: TaskRecord, state: S, started: float, reconciling: bool) -> Opened[S]:
        return Opened(record, state, TaskLease(self._tasks, record, conf.get().lease, started), reconciling)

    # -- can this code continue it? -----------------------------------------------------------------------------------

    def _matched(self, record: TaskRecord) -> Flow[S]:
        try:
            return self._match(record)
        except TaskMismatch as error:
            if record.due:
                reason = "state_invalid" if isinstance(error, StateInvalid) else "diverged"
                grace = conf.get().mismatch_grace
                yield from self._tasks.task_let_go(
                    position(record), reason, str(error), pause=_MISMATCH_PAUSE, grace=grace
                )
            raise

    def _match(self, record: TaskRecord) -> S:
        definition, name = self._definition, f"the task {record.key!r}"
        if record.definition != definition.id:
            raise DefinitionMismatch(f"{name} belongs to {record.definition!r}, not to {definition.id!r}")
        if record.revision != definition.revision:
            raise RevisionMismatch(
                f"{name} was made by revision {record.revision!r} of {definition.id!r}; this code has "
                f"{definition.revision!r}"
            )
        if record.fingerprint != definition.fingerprint:
            raise FingerprintMismatch(
                f"{name} was made by other steps under the same revision {definition.revision!r} of "
                f"{definition.id!r}: give changed steps a new revision"
            )
        return definition.decode(record.state)


def ending_of(record: TaskRecord) -> str | None:
    """Return why the task is to end without another step: a cancel, or its deadline; None: it is not."""
    if record.cancel_requested is not None:
        return record.cancel_requested
    return "deadline_passed" if record.overdue else None


def ending_reason(record: TaskRecord, step_name: str) -> str:
    """Return the reason that an ended task shows; it names a step whose effect may have happened."""
    return f"{ending_of(record)}{open_step(step_name)}" if record.status == "running" else str(ending_of(record))


def open_step(step_name: str) -> str:
    """Return what a reason says of a step whose effect may have happened."""
    return f" (step {step_name!r} was open)"


def shortage(record: TaskRecord, step: Step[S]) -> str:
    """Return why the step cannot be entered once more, or ``""``."""
    if record.attempts >= record.max_attempts:
        return "attempts_exhausted"
    if record.max_calls is not None and record.reserved_calls + step.model_calls > record.max_calls:
        return "budget_exhausted"
    return ""
