"""The engine's primitives in memory: claim, commit, fail, renew, and what is decided without a lease."""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.tasks import (
    Committed,
    Failure,
    Grant,
    NewTask,
    Position,
    Renewal,
    Renewed,
    Save,
    Status,
    TaskPrimitives,
    TaskRecord,
)
from ...keys import Entry
from .clock import after, maybe_after, moment
from .primitives import MemoryPrimitives, reads, writes
from .taskrows import Saved, TaskRow


class TaskOperations(MemoryPrimitives, TaskPrimitives):
    """Fill in the life of a task. Each decision is that of the statement of the same name on a database."""

    @writes
    def task_start(self, now: int, new: NewTask) -> bool:
        tasks = self.memory.tasks
        if tasks.of(new.entry) is not None:
            return False
        tasks.put(tasks.started(new, now))
        return True

    @reads
    def task_read(self, now: int, entry: Entry) -> TaskRecord | None:
        task = self.memory.tasks.of(entry)
        return None if task is None else task.record(now)

    @reads
    def task_sizes(self, now: int, task: int) -> list[tuple[int, int]]:
        row = self.memory.tasks.get(task)
        return [] if row is None else sorted((saved.save_seq, len(saved.state)) for saved in row.saves.values())

    # -- claim and enter ----------------------------------------------------------------------------------------------

    @writes
    def task_claim(self, now: int, at: Position, worker: str, lease: int, *, enter: bool, calls: int) -> Grant | None:
        task = self.memory.tasks.at(at)
        if task is None or not _claimable(task, now) or (enter and not task.room(calls)):
            return None
        task.raise_fence(now)
        task.claims += 1
        task.worker, task.wake_at = worker, after(now, lease)
        task.resume_at = task.notified_until = task.mismatch_since = None
        if enter:
            _enter(task, calls)
        self.memory.tasks.put(task)
        return Grant(task.fence, task.attempts, moment(now))

    @writes
    def task_enter(self, now: int, at: Position, *, calls: int) -> Grant | None:
        task = self.memory.tasks.at(at)
        if task is None or not task.room(calls) or task.cancel_requested is not None or task.overdue(now):
            return None
        _enter(task, calls)
        return Grant(task.fence, task.attempts, moment(now))

    # -- the ways a step ends -----------------------------------------------------------------------------------------

    @writes
    def task_commit(self, now: int, at: Position, save: Save) -> Committed | None:
        task = self.memory.tasks.at(at)
        if task is None or task.status != "running":
            return None
        over = task.cancel_requested is not None or task.overdue(now)
        task.save_seq, task.claims, task.last_error, task.resume_at = task.save_seq + 1, 0, "", None
        task.step_index, task.turn = save.next_index, save.next_turn
        task.max_attempts += save.more_attempts
        task.reserved_calls -= save.refund
        task.report(save.progress, save.progress_text)
        if save.ending in ("completed", "failed"):
            _release(task, now, "cancelled" if save.ending == "failed" else "completed", save.reason)
        elif over:
            _release(task, now, "cancelled", task.cancel_requested or "deadline_passed")
        elif save.ending == "stop":
            task.let_go(now)
            task.status, task.reason, task.wake_at = "ready", "", now
            task.notified_until = maybe_after(now, save.notify)
        else:
            _enter_next(task, now, save)
        self._keep(task, now, save)
        self.memory.tasks.put(task)
        return Committed(task.status, task.reason, task.fence, task.attempts, task.cancel_requested, moment(now))

    def _keep(self, task: TaskRow, now: int, save: Save) -> None:
        task.keep(
            Saved(
                task.save_seq,
                save.next_index,
                save.step,
                save.turn,
                save.attempts,
                save.outcome,
                save.state,
                save.worker,
                save.milliseconds,
                now,
            )
        )
        if save.forget_through is not None:
            for slot, saved in list(task.saves.items()):
                if saved.save_seq <= save.forget_through:
                    del task.saves[slot]

    @writes
    def task_fail(self, now: int, at: Position, failure: Failure) -> Status | None:
        task = self.memory.tasks.at(at)
        if task is None:
            return None
        task.report(failure.progress, failure.progress_text)
        task.last_error = failure.error
        if not failure.keep_claims:
            task.claims = 0
        if failure.cancelled or task.cancel_requested is not None:
            asked = task.cancel_requested
            reason = failure.reason if asked is None else asked + failure.open_step
            _release(task, now, "cancelled", reason)
        else:
            task.let_go(now)
            task.reason, task.resume_at, task.finished_at = "", after(now, failure.backoff), None
            task.wake_at = _soonest(task.resume_at, task.deadline)
        task.notified_until = maybe_after(now, failure.notify)
        self.memory.tasks.put(task)
        return task.status

    @writes
    def task_renew(self, now: int, renewals: Sequence[Renewal]) -> list[Renewed]:
        return [self._renew(now, renewal) for renewal in renewals]

    def _renew(self, now: int, renewal: Renewal) -> Renewed:
        task = self.memory.tasks.get(renewal.task)
        if task is None or task.fence != renewal.fence:
            return Renewed(False)
        task.wake_at = after(now, renewal.lease)
        task.report(renewal.progress, renewal.progress_text)
        self.memory.tasks.put(task)
        return Renewed(True, task.cancel_requested)

    # -- decided without a lease --------------------------------------------------------------------------------------

    @writes
    def task_cancel(self, now: int, at: Position, reason: str) -> bool:
        task = self._unheld(now, at)
        if task is None or (task.cancel_requested is None and not task.overdue(now)):
            return False
        task.claims = 0
        _release(task, now, "cancelled", reason)
        self.memory.tasks.put(task)
        return True

    @writes
    def task_park(self, now: int, at: Position, reason: str, *, ready: bool = False) -> bool:
        task = self.memory.tasks.at(at)
        if task is None or not task.open or task.cancel_requested is not None:
            return False
        task.let_go(now)
        task.reason, task.wake_at = reason, None
        if ready:
            task.status = "ready"
        self.memory.tasks.put(task)
        return True

    @writes
    def task_restore(self, now: int, at: Position) -> bool:
        task = self._unheld(now, at)
        if task is None or not task.due(now) or task.cancel_requested is not None:
            return False
        if not task.reason and (task.resume_at is None or task.resume_at <= now):
            return False
        task.raise_fence(now)
        task.worker = ""
        task.wake_at = None if task.reason else _soonest(task.resume_at, task.deadline)
        self.memory.tasks.put(task)
        return True

    @writes
    def task_let_go(self, now: int, at: Position, reason: str, note: str, *, pause: int, grace: int) -> bool:
        task = self._unheld(now, at)
        if task is None or not task.due(now):
            return False
        parks = task.mismatch_since is not None and task.mismatch_since <= after(now, -grace)
        task.let_go(now)
        task.last_error = note
        task.mismatch_since = now if task.mismatch_since is None else task.mismatch_since
        task.reason = reason if parks else task.reason
        task.wake_at = None if parks else after(now, pause)
        self.memory.tasks.put(task)
        return True

    def _unheld(self, now: int, at: Position) -> TaskRow | None:
        """Return the task if it is still the version that was read, open, and nobody holds it."""
        task = self.memory.tasks.at(at)
        return task if task is not None and task.open and not task.held(now) else None


def _claimable(task: TaskRow, now: int) -> bool:
    rests = task.resume_at is not None and task.resume_at > now
    ends = task.cancel_requested is not None or task.deadline is None or task.overdue(now)
    return task.due(now) and not rests and not ends and not task.reason


def _enter(task: TaskRow, calls: int) -> None:
    task.status = "running"
    task.attempts += 1
    task.reserved_calls += calls


def _enter_next(task: TaskRow, now: int, save: Save) -> None:
    """Enter the next step under the same lease, or park the task where it may not."""
    if task.room(save.calls):
        _enter(task, save.calls)
        task.reason = ""
        # A lease with more than two thirds left stays where it is, as on a database.
        if task.wake_at is not None and task.wake_at < after(now, save.lease * 2 // 3):
            task.wake_at = after(now, save.lease)
        return
    reason = "attempts_exhausted" if task.attempts >= task.max_attempts else "budget_exhausted"
    task.raise_fence(now)
    task.status, task.reason, task.worker, task.wake_at = "ready", reason, "", None


def _release(task: TaskRow, now: int, status: Status, reason: str) -> None:
    """End the task."""
    task.let_go(now)
    task.status, task.reason, task.wake_at, task.finished_at = status, reason, None, now


def _soonest(resume_at: int | None, deadline: int | None) -> int | None:
    return min((at for at in (resume_at, deadline) if at is not None), default=None)
