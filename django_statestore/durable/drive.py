"""One drive of a task: claim it, run its steps one after another, commit each, and let go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from .. import conf
from ..contracts.taskrecord import TaskRecord
from ..contracts.tasks import Committed, Failure, Save
from ..exceptions import LeaseLost, StepTimeout, TransactionConflict
from ..flow import Flow
from . import atomic, dispatch, events, points
from .context import StepContext
from .definition import Definition, Step
from .ending import ending_of, open_step
from .invoke import Invoke
from .lease import new_worker
from .leaving import Cancelled, DeadlinePassed, LeaseOver
from .opening import Opened, Opening, calls_of, shortage
from .outcomes import NotDone
from .patience import patiently
from .place import Place
from .results import Result, result_of
from .saving import Saving
from .text import describe

S = TypeVar("S")

logger = logging.getLogger("django_statestore.durable")


class Drive(Generic[S]):
    """Drive one task as far as it goes now.

    ``seconds`` bounds it: after them it saves its step and lets go instead of entering the next. ``stopping`` is asked
    at every save too: a process that is told to end does the same.
    """

    def __init__(
        self,
        definition: Definition[S],
        place: Place,
        *,
        app: Any = None,
        seconds: float | None = None,
        stopping: Callable[[], bool] = bool,
    ) -> None:
        self._definition, self._place, self.tasks = definition, place, place.tasks
        self._app = definition.app if app is None else app
        self._until = None if seconds is None else time.monotonic() + seconds
        self._stopping = stopping
        self._worker = new_worker()
        self._waits = False
        self.saving = Saving(definition, place, self._worker, self._stops)

    def run(self) -> Flow[TaskRecord]:
        """Run steps until the task ends, waits, is parked, fails, or the time is up; return the record as it is then.

        A step's own exception is raised once it is recorded. ``LeaseLost``: another worker took over.
        """
        while True:
            opened = yield from Opening(self._definition, self._place, self._worker).open()
            if isinstance(opened, TaskRecord):
                return opened
            try:
                yield from opened.lease.hold()
                while opened.record.status == "running":
                    yield from self._step(opened)
            finally:
                opened.lease.let_go()
            record = opened.record
            if record.finished or record.reason:
                return record
            if self._waits:
                record = yield from self._place.read()
                if not record.due:
                    return record
            if not self._stops():  # what it waited for has come already
                continue
            yield from self._place.send_if_active(record.id)
            return record

    def _stops(self) -> bool:
        """Return whether this drive is to enter no other step."""
        return self._stopping() or (self._until is not None and time.monotonic() >= self._until)

    # -- one step -----------------------------------------------------------------------------------------------------

    def _step(self, opened: Opened[S]) -> Flow[None]:
        step, started = self._definition.steps[opened.record.step_index], time.monotonic()
        ctx = self._context(opened, step)
        points.reach("entered", step.name)
        done: Result[S] | tuple[Result[S], Save, Committed] | None
        try:
            if step.replay == "atomic":
                done = yield from atomic.run(self, opened, step, ctx)
            else:
                done = yield from self._called(opened, step, ctx)
        except (LeaseLost, GeneratorExit, points.Crashed):  # nothing may be written, or nobody drives this any more
            raise
        except LeaseOver as error:
            raise (yield from self.lost(opened)) from error
        except BaseException as error:
            elapsed = round((time.monotonic() - started) * 1000)
            raised = yield from self._judged(step, error)
            yield from self._failed(opened, step, raised, elapsed)
            if raised is not error:
                raise raised from error
            if not isinstance(error, (Cancelled, DeadlinePassed)):
                raise
            return
        elapsed = round((time.monotonic() - started) * 1000)
        if done is None:
            yield from self._enter(opened, step)
        elif isinstance(done, Result):
            result = done
            save = yield from patiently(lambda: self.saving.of(opened, step, result, ctx, elapsed))
            committed = yield from self.saving.send(opened.lease.position, save)
            if committed is None:
                raise (yield from self.lost(opened))
            yield from self._saved(opened, step, result, save, committed)
        else:
            yield from self._saved(opened, step, *done)

    def _judged(self, step: Step[S], error: BaseException) -> Flow[BaseException]:
        """Return what a step has raised. Only the store says that a deadline is over: a later one may be granted."""
        if isinstance(error, DeadlinePassed):
            record = yield from self._place.read()
            if not record.overdue and record.cancel_requested is None:
                return StepTimeout(f"step {step.name!r} left at a deadline that was put off: it is entered again")
        return error

    def _called(self, opened: Opened[S], step: Step[S], ctx: StepContext) -> Flow[Result[S] | None]:
        """Call the step's function, or its reconcile; None: that has found it not to be done."""
        function = step.reconciler if opened.reconciling and step.reconciler else step.function
        returned = yield from Invoke(function, (opened.state, ctx), timeout=step.timeout)
        points.reach("returned", step.name)
        return None if opened.reconciling and returned is NotDone else self.result(opened, step, returned)

    def result(self, opened: Opened[S], step: Step[S], returned: Any) -> Result[S]:
        return result_of(returned, self._definition.encode, step=step.name, reconciling=opened.reconciling)

    def _context(self, opened: Opened[S], step: Step[S]) -> StepContext:
        record = opened.record
        return StepContext(
            self._place.store,
            self.tasks,
            opened.lease,
            task_id=record.key,
            step=step.name,
            turn=record.turn,
            attempt=record.attempt,
            app=self._app,
            calls=0 if opened.reconciling else calls_of(step, record),
            received=opened.received,
            timeout=step.timeout,
            atomic=step.replay == "atomic",
            journals=not opened.reconciling,
        )

    def _enter(self, opened: Opened[S], step: Step[S]) -> Flow[None]:
        """Enter a step that was reconciled and found not to be done."""
        reserved = calls_of(step, opened.record)
        grant = yield from self.tasks.task_enter(opened.lease.position, calls=reserved)
        opened.reconciling = False
        if grant is not None:
            calls = opened.record.reserved_calls + reserved
            opened.record = replace(opened.record, attempts=grant.attempts, reserved_calls=calls)
            return
        record = yield from self._place.read()
        if record.fence != opened.lease.fence:
            raise (yield from self.lost(opened))
        ending, lacks, done = ending_of(record), shortage(record, step), False
        left = replace(record, worker="", wake_at=None)
        if ending is not None:
            failure = Failure("", 0, True, ending, open_step="", keep_claims=False, notify=None)
            done = (yield from self.tasks.task_fail(opened.lease.position, failure)) is not None
            left = replace(left, status="cancelled", reason=ending, finished_at=record.now)
        elif lacks:
            done = yield from self.tasks.task_park(opened.lease.position, lacks, ready=True)
            left = replace(left, status="ready", reason=lacks)
        if not done:  # something was asked of it meanwhile, or what it lacked was granted
            return (yield from self._enter(opened, step))
        # Not read anew: by now another worker may have entered the step.
        opened.record = left
        tell = events.task_finished if left.finished else events.task_parked
        yield from tell(self._definition, self._place.store, left)

    # -- the ways a step ends -----------------------------------------------------------------------------------------

    def _saved(
        self, opened: Opened[S], step: Step[S], result: Result[S], save: Save, committed: Committed
    ) -> Flow[None]:
        """Take note of a commit that went through, and tell those who listen."""
        record = opened.record
        opened.lease.saved(record.save_seq + 1, committed.fence, committed.cancel_requested)
        opened.state = opened.state if result.payload is None else result.state  # type: ignore[assignment]
        opened.reconciling, opened.received = False, None
        self._waits = committed.status == "ready" and save.wait is not None
        opened.record = replace(
            record,
            status=committed.status,
            reason=committed.reason,
            fence=committed.fence,
            attempts=committed.attempts,
            reserved_calls=record.reserved_calls - save.refund + (save.calls if committed.status == "running" else 0),
            saved_attempts=record.attempts,
            save_seq=record.save_seq + 1,
            step_index=save.next_index,
            turn=save.next_turn,
            state=save.state,
            claims=0,
            max_attempts=record.max_attempts + save.more_attempts,
            worker=record.worker if committed.status == "running" else "",
            wake_at=committed.now if committed.status == "ready" and not committed.reason else None,
            received=None,
            finished_at=committed.now if committed.status in ("completed", "cancelled") else None,
            last_error="",
            cancel_requested=committed.cancel_requested,
            progress=record.progress if save.progress is None else save.progress,
            progress_text=record.progress_text if save.progress_text is None else save.progress_text,
            now=committed.now,
        )
        points.reach("saved", step.name)
        yield from self._tell(opened.record, step, record, result.outcome, save.milliseconds)
        if self._waits and save.notify is not None and save.wait is not None and save.wait.delay is not None:
            yield from self._place.send_if_active(opened.record.id, save.wait.delay)

    def _tell(
        self, record: TaskRecord, step: Step[S], before: TaskRecord, outcome: str, milliseconds: int
    ) -> Flow[None]:
        yield from events.step_finished(
            self._definition,
            self._place.store,
            record,
            step=step.name,
            turn=before.turn,
            attempt=before.attempt,
            outcome=outcome,
            milliseconds=milliseconds,
        )
        if record.finished:
            yield from events.task_finished(self._definition, self._place.store, record)
        elif record.parked:
            yield from events.task_parked(self._definition, self._place.store, record)

    def _failed(self, opened: Opened[S], step: Step[S], error: BaseException, elapsed: int) -> Flow[None]:
        """Record that the step, or its reconcile, raised; that this cannot be done never hides the error itself.

        ``LeaseLost``, caused by that error: another worker took over, and nothing was recorded.
        """
        record, failure = opened.record, self._failure(opened, step, error)
        try:
            status = yield from self.tasks.task_fail(opened.lease.position, failure)
            if status == "running" and failure.notify is not None:
                yield from self._place.send_if_active(record.id, failure.backoff)
        except Exception as failing:
            logger.warning(
                "the failure of a step could not be recorded: %s",
                type(failing).__name__,
                extra=self._extra(step=step.name),
            )
            if failure.cancelled:
                raise
            return
        if status is None:
            lost = yield from self.lost(opened)
            if isinstance(error, (Exception, Cancelled, DeadlinePassed)):
                raise lost from error
            return
        if status == "running":
            opened.record = replace(record, worker="")
        else:
            opened.record = yield from self._place.read()
        yield from self._tell(opened.record, step, record, "raised", elapsed)

    def _failure(self, opened: Opened[S], step: Step[S], error: BaseException) -> Failure:
        record, settings = opened.record, conf.get()
        leaves = isinstance(error, (Cancelled, DeadlinePassed))
        backoff = self._definition.backoff.after(record.claims if opened.reconciling else record.attempt)
        if isinstance(error, TransactionConflict) and step.replay == "atomic":
            backoff = 1  # the database gave the transaction up: there is nothing to wait for
        soon = not leaves and backoff <= settings.sweep_every and dispatch.active(self._place.store.alias)
        progress, text = opened.lease.progress
        code = "deadline_passed" if isinstance(error, DeadlinePassed) else "cancelled"
        return Failure(
            "" if leaves else describe(error),
            backoff,
            cancelled=leaves,
            reason=f"{code}{open_step(step.name)}" if leaves else "",
            open_step=open_step(step.name),
            keep_claims=opened.reconciling,
            notify=backoff + settings.notify_grace if soon else None,
            progress=progress,
            progress_text=text,
        )

    # -- helpers ------------------------------------------------------------------------------------------------------

    def lost(self, opened: Opened[S]) -> Flow[LeaseLost]:
        """Tell those who listen that another worker took over, and return the error that says so."""
        step = self._definition.step_name(opened.record.step_index)
        yield from events.lease_lost(self._definition, self._place.store, opened.record, step=step)
        return LeaseLost(f"the lease on the task {self._place.entry.key!r} was lost: another worker took over")

    def _extra(self, **more: Any) -> dict[str, Any]:
        return {
            "store": self._place.store.alias,
            "task_id": self._place.entry.key,
            "definition": self._definition.id,
            **more,
        }
