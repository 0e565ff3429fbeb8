"""How a task is opened: one read, the checks in their order, and then claim and entry in one write.

Nothing is written before the code at hand has proved that it can continue the task. The order: definition, revision,
fingerprint, state; then cancel and deadline; then reconciliation, or attempts and model calls.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from .. import codec, conf
from ..contracts.mailbox import Mail
from ..contracts.taskrecord import TaskRecord
from ..contracts.tasks import Waking
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
from . import events
from .definition import Definition
from .differences import difference
from .ending import end, ending_of
from .lease import TaskLease
from .mismatch import let_go
from .outcomes import Signal
from .place import Place

if TYPE_CHECKING:
    from .definition import Step

S = TypeVar("S")

_TRIES = 20


@dataclass(slots=True)
class Opened(Generic[S]):
    """Hold a task that this worker has claimed."""

    record: TaskRecord
    state: S
    lease: TaskLease
    reconciling: bool
    received: Signal | None = None


class Opening(Generic[S]):
    """Open one task for one worker."""

    def __init__(self, definition: Definition[S], place: Place, worker: str) -> None:
        self._definition, self._place, self._worker = definition, place, worker
        self._unanswered: tuple[float, bool] | None = None
        """A claim whose answer was lost: when it was sent, and whether it was made to reconcile."""

    def open(self) -> Flow[TaskRecord | Opened[S]]:
        """Claim the task and enter its step, or return the record that says why there is nothing to do.

        Raises ``TaskMismatch`` where this code cannot continue it and ``TaskBusy`` where another holds it.
        """
        for _ in range(_TRIES):
            record = yield from self._place.read()
            if record.due and record.restful and record.cancel_requested is None:
                yield from self._place.tasks.task_restore(record.position)
                continue
            if record.finished or record.parked:
                return record
            state = yield from self._matched(record)
            if self._unanswered and record.leased and record.worker == self._worker:
                return (yield from self._opened(record, state, *self._unanswered))
            if record.leased:
                raise TaskBusy(f"the task {record.key!r} is held by a worker whose lease is not over")
            if not record.due:
                return record
            opened = yield from self._decided(record, state)
            if opened is not None:
                return opened
        raise StoreUnavailable("the task changes faster than it can be claimed: try again")

    def _decided(self, record: TaskRecord, state: S) -> Flow[Opened[S] | None]:
        """Do what the row calls for; None: look again, the row has changed."""
        steps = self._definition.steps
        at_end = record.step_index >= len(steps)
        if ending_of(record) is not None and (record.cancel_requested is not None or not at_end):
            yield from end(self._place, record)
            return None
        waking, mail = None, None
        if record.waiting_for:
            mail = yield from self._place.tasks.task_mail(record.id, record.waiting_for)
            if mail is None and not record.timed_out and not record.overdue:
                yield from self._place.tasks.task_wait_again(record.position, record.signal_seq)
                return None
            waking = Waking(record.signal_seq, mail.id if mail else None)
        if at_end:
            if (yield from self._place.tasks.task_complete(record.position, waking)):
                ended = replace(record, status="completed", reason="", wake_at=None, finished_at=record.now)
                yield from events.task_finished(self._definition, self._place.store, ended)
            return None
        step = steps[record.step_index]
        reconciling = record.status == "running" and step.replay == "reconcile"
        parking = self._parking(record, step, reconciling)
        if parking:
            if (yield from self._place.tasks.task_park(record.position, parking)):
                parked = replace(record, reason=parking, wake_at=None)
                yield from events.task_parked(self._definition, self._place.store, parked)
            return None
        return (yield from self._claimed(record, state, step, reconciling, waking, mail))

    def _parking(self, record: TaskRecord, step: Step[S], reconciling: bool) -> str:
        """Return the reason for which the task must wait for an operator, or ``""``."""
        if record.claims >= conf.get().max_claims:
            return "reconcile_unknown" if reconciling else "crash_loop"
        return "" if reconciling else shortage(record, step)

    def _claimed(
        self,
        record: TaskRecord,
        state: S,
        step: Step[S],
        reconciling: bool,
        waking: Waking | None,
        mail: Mail | None,
    ) -> Flow[Opened[S] | None]:
        started, lease = time.monotonic(), conf.get().lease
        calls = 0 if reconciling else calls_of(step, record)
        try:
            grant = yield from self._place.tasks.task_claim(
                record.position, self._worker, lease, enter=not reconciling, calls=calls, waking=waking
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
            waiting_for="",
            wait_spec="",
            resume_at=None,
            received=waking.received if waking else record.received,
            now=grant.now,
        )
        return (yield from self._opened(record, state, started, reconciling, mail))

    def _opened(
        self, record: TaskRecord, state: S, started: float, reconciling: bool, mail: Mail | None = None
    ) -> Flow[Opened[S]]:
        if record.received is not None and mail is None:
            mail = yield from self._place.tasks.task_letter(record.received)
        received = Signal(mail.name, codec.loads(mail.payload), mail.sender, mail.sent_at) if mail else None
        lease = TaskLease(self._place.tasks, record, conf.get().lease, started)
        return Opened(record, state, lease, reconciling, received)

    # -- can this code continue it? -----------------------------------------------------------------------------------

    def _matched(self, record: TaskRecord) -> Flow[S]:
        try:
            return self._match(record)
        except TaskMismatch as error:
            if record.due:
                reason = "state_invalid" if isinstance(error, StateInvalid) else "diverged"
                yield from let_go(self._place, record, reason, str(error))
            raise

    def _match(self, record: TaskRecord) -> S:
        definition, name = self._definition, f"the task {record.key!r}"
        if record.definition != definition.id:
            raise DefinitionMismatch(f"{name} belongs to {record.definition!r}, not to {definition.id!r}")
        if record.revision != definition.revision:
            raise RevisionMismatch(
                f"{name} was made by revision {record.revision!r} of {definition.id!r}; this code has "
                f"{definition.revision!r}{difference(record.fingerprint, definition)}"
            )
        if record.fingerprint != definition.fingerprint:
            raise FingerprintMismatch(
                f"{name} was made by other steps under the same revision {definition.revision!r} of "
                f"{definition.id!r}: give changed steps a new revision{difference(record.fingerprint, definition)}"
            )
        return definition.decode(record.state)


def shortage(record: TaskRecord, step: Step[S]) -> str:
    """Return why the step cannot be entered once more, or ``""``."""
    if record.attempts >= record.max_attempts:
        return "attempts_exhausted"
    if record.max_calls is not None and record.reserved_calls + calls_of(step, record) > record.max_calls:
        return "budget_exhausted"
    return ""


def calls_of(step: Step[S], record: TaskRecord) -> int:
    """Return how many model calls an entry reserves: what the step declares, and the task's own budget allows."""
    allowed = record.max_calls_per_attempt
    return step.model_calls if allowed is None else min(step.model_calls, allowed)
