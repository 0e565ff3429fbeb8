"""One drive of a task: claim it, run its steps one after another, commit each, and let go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from .. import conf
from ..contracts.tasks import Committed, Failure, Save, TaskPrimitives, TaskRecord
from ..exceptions import LeaseLost, OutcomeUnknown, StoreUnavailable, TaskNotFound
from ..flow import Call, Flow, Pause
from ..keys import Entry
from ..store import Store
from . import dispatch
from .context import StepContext
from .definition import Definition, Step
from .growth import Growth
from .invoke import Invoke
from .lease import new_worker
from .opening import Opened, Opening, ending_of, open_step, shortage
from .outcomes import NotDone
from .results import Result, result_of
from .text import describe

S = TypeVar("S")

logger = logging.getLogger("django_statestore.durable")

_RESEND = 30.0  # seconds for which a commit is sent again while the store does not answer


class Drive(Generic[S]):
    """Drive one task as far as it goes now.

    ``seconds`` bounds it: after them it saves its step and lets go instead of entering the next. ``stopping`` is asked
    at every save too: a process that is told to end does the same.
    """

    def __init__(
        self,
        definition: Definition[S],
        store: Store,
        tasks: TaskPrimitives,
        entry: Entry,
        *,
        app: Any = None,
        seconds: float | None = None,
        stopping: Callable[[], bool] = bool,
    ) -> None:
        self._definition, self._store, self._tasks, self._entry = definition, store, tasks, entry
        self._app = definition.app if app is None else app
        self._until = None if seconds is None else time.monotonic() + seconds
        self._stopping = stopping
        self._worker = new_worker()
        self._growth = Growth(tasks)

    def run(self) -> Flow[TaskRecord]:
        """Run steps until the task ends, waits, is parked, fails, or the time is up; return the record as it is then.

        A step's own exception is raised once it is recorded. ``LeaseLost``: another worker took over.
        """
        opened = yield from Opening(self._definition, self._tasks, self._read, self._worker).open()
        if isinstance(opened, TaskRecord):
            return opened
        try:
            yield from opened.lease.hold()
            while opened.record.status == "running":
                yield from self._step(opened)
        finally:
            opened.lease.let_go()
        if opened.record.status == "ready" and not opened.record.reason:
            yield from self._hint(0, opened.record)
        return opened.record

    def _read(self) -> Flow[TaskRecord]:
        record = yield from self._tasks.task_read(self._entry)
        if record is None:
            raise TaskNotFound(f"there is no task {self._entry.key!r} in this namespace")
        return record

    # -- one step -----------------------------------------------------------------------------------------------------

    def _step(self, opened: Opened[S]) -> Flow[None]:
        step, started = self._definition.steps[opened.record.step_index], time.monotonic()
        ctx = self._context(opened, step)
        function = step.reconciler if opened.reconciling and step.reconciler else step.function
        try:
            returned = yield from Invoke(function, opened.state, ctx)
            if opened.reconciling and returned is NotDone:
                result = None
            else:
                result = result_of(returned, self._definition.encode, step=step.name, reconciling=opened.reconciling)
        except (LeaseLost, GeneratorExit):  # nothing may be written, or nobody drives this flow any more
            raise
        except BaseException as error:
            yield from self._failed(opened, step, error)
            raise
        if result is None:
            yield from self._enter(opened, step)
        else:
            elapsed = round((time.monotonic() - started) * 1000)
            yield from self._commit(opened, step, result, elapsed, unused=ctx.calls_left)

    def _context(self, opened: Opened[S], step: Step[S]) -> StepContext:
        record = opened.record
        return StepContext(
            self._store,
            opened.lease,
            task_id=record.key,
            step=step.name,
            turn=record.turn,
            attempt=record.attempt,
            app=self._app,
            calls=0 if opened.reconciling else step.model_calls,
        )

    def _enter(self, opened: Opened[S], step: Step[S]) -> Flow[None]:
        """Enter a step that was reconciled and found not to be done."""
        grant = yield from self._tasks.task_enter(opened.lease.position, calls=step.model_calls)
        opened.reconciling = False
        if grant is not None:
            calls = opened.record.reserved_calls + step.model_calls
            opened.record = replace(opened.record, attempts=grant.attempts, reserved_calls=calls)
            return
        record = yield from self._read()
        if record.fence != opened.lease.fence:
            raise self._lost()
        ending = ending_of(record)
        if ending is not None:
            failure = Failure("", 0, True, ending, open_step="", keep_claims=False, notify=None)
            yield from self._tasks.task_fail(opened.lease.position, failure)
        else:
            yield from self._tasks.task_park(opened.lease.position, shortage(record, step), ready=True)
        opened.record = yield from self._read()

    # -- the ways a step ends -----------------------------------------------------------------------------------------

    def _commit(self, opened: Opened[S], step: Step[S], result: Result[S], elapsed: int, *, unused: int) -> Flow[None]:
        record = opened.record
        save = self._save(opened, step, result, elapsed, unused)
        save = replace(save, forget_through=(yield from self._growth.forget(record, len(save.state))))
        committed = yield from self._sent(opened, save)
        opened.lease.saved(record.save_seq + 1, committed.fence, committed.cancel_requested)
        opened.state = opened.state if result.payload is None else result.state  # type: ignore[assignment]
        opened.reconciling = False
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
            finished_at=committed.now if committed.status in ("completed", "cancelled") else None,
            last_error="",
            cancel_requested=committed.cancel_requested,
            progress=record.progress if save.progress is None else save.progress,
            progress_text=record.progress_text if save.progress_text is None else save.progress_text,
            now=committed.now,
        )

    def _save(self, opened: Opened[S], step: Step[S], result: Result[S], elapsed: int, unused: int) -> Save:
        record, steps, settings = opened.record, self._definition.steps, conf.get()
        assert record.state is not None
        failed = result.outcome == "failed"
        stays = result.repeats or failed
        next_index = record.step_index if stays else len(steps) if result.ends else record.step_index + 1
        completes = not failed and next_index == len(steps)
        stops = self._stopping() or (self._until is not None and time.monotonic() >= self._until)
        progress, text = opened.lease.progress
        hints = dispatch.active(self._store.alias)
        return Save(
            ending="failed" if failed else "completed" if completes else "stop" if stops else "enter",
            state=record.state if result.payload is None else result.payload,
            step=step.name,
            turn=record.turn,
            attempts=record.attempts,
            outcome=result.outcome,
            milliseconds=elapsed,
            worker=self._worker,
            next_index=next_index,
            next_turn=record.turn + 1 if result.repeats else 1,
            more_attempts=int(result.repeats and record.turn < self._definition.limits.max_turns),
            refund=unused,
            calls=0 if completes or failed else steps[next_index].model_calls,
            lease=settings.lease,
            notify=settings.notify_grace if hints else None,
            reason=result.reason,
            progress=progress,
            progress_text=text,
        )

    def _sent(self, opened: Opened[S], save: Save) -> Flow[Committed]:
        """Send a commit, and again while the store does not answer: at most one of them takes effect."""
        position, give_up, pause, doubtful = opened.lease.position, time.monotonic() + _RESEND, 0.1, False
        while True:
            try:
                committed = yield from self._tasks.task_commit(position, save)
            except (OutcomeUnknown, StoreUnavailable) as error:
                doubtful = doubtful or isinstance(error, OutcomeUnknown)
                if time.monotonic() >= give_up:
                    raise
                yield from Pause(pause)
                pause = min(pause * 2, 2.0)
                continue
            if committed is None and doubtful:
                committed = yield from self._already(save, position.save_seq + 1)
            if committed is None:
                raise self._lost()
            return committed

    def _already(self, save: Save, save_seq: int) -> Flow[Committed | None]:
        """Return what a commit did whose answer was lost, if it was ours that took effect."""
        record = yield from self._read()
        ours = record.worker == self._worker if record.status == "running" else record.saved_by == self._worker
        if record.save_seq != save_seq or not ours:
            return None
        return Committed(
            record.status, record.reason, record.fence, record.attempts, record.cancel_requested, record.now
        )

    def _failed(self, opened: Opened[S], step: Step[S], error: BaseException) -> Flow[None]:
        """Record that the step, or its reconcile, raised; that this cannot be done never hides the error itself.

        ``LeaseLost``, caused by that error: another worker took over, and nothing was recorded.
        """
        record = opened.record
        backoff = self._definition.backoff.after(record.claims if opened.reconciling else record.attempt)
        soon = backoff <= conf.get().sweep_every and dispatch.active(self._store.alias)
        progress, text = opened.lease.progress
        failure = Failure(
            describe(error),
            backoff,
            cancelled=False,
            reason="",
            open_step=open_step(step.name),
            keep_claims=opened.reconciling,
            notify=backoff + conf.get().notify_grace if soon else None,
            progress=progress,
            progress_text=text,
        )
        try:
            status = yield from self._tasks.task_fail(opened.lease.position, failure)
            if status == "running" and soon:
                yield from self._hint(backoff, record)
        except Exception as failing:
            logger.warning(
                "the failure of a step could not be recorded: %s",
                type(failing).__name__,
                extra=self._extra(step=step.name),
            )
        else:
            if status is None and isinstance(error, Exception):
                raise self._lost() from error

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _hint(self, countdown: int, record: TaskRecord) -> Flow[None]:
        alias, names = self._store.alias, self._store.names
        if not dispatch.active(alias):
            return
        queue, key = self._definition.queue, self._entry.key
        if not (yield from Call(lambda: dispatch.send(alias, names, key, queue=queue, countdown=countdown))):
            yield from self._tasks.task_unnotify(record.id)

    def _lost(self) -> LeaseLost:
        return LeaseLost(f"the lease on the task {self._entry.key!r} was lost: another worker took over")

    def _extra(self, **more: Any) -> dict[str, Any]:
        return {"store": self._store.alias, "task_id": self._entry.key, "definition": self._definition.id, **more}
