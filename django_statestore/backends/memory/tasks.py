"""The engine's primitives in memory: claim, commit, fail, renew."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...contracts.position import Position
from ...contracts.taskrecord import NewTask, Status, TaskRecord
from ...contracts.tasks import Committed, Failure, Grant, Renewal, Renewed, Save, TaskPrimitives, Wait, Waking
from ...exceptions import NotSupported
from ...flow import Action
from ...keys import Entry
from .clock import after, maybe_after, moment
from .parts import Saved
from .primitives import Immediate, MemoryPrimitives, reads, writes
from .taskrows import TaskRow, soonest


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
    def task_claim(
        self,
        now: int,
        at: Position,
        worker: str,
        lease: int,
        *,
        enter: bool,
        calls: int,
        waking: Waking | None = None,
    ) -> Grant | None:
        task = self.memory.tasks.at(at)
        if task is None or not _claimable(task, now, waking) or (enter and not task.room(calls)):
            return None
        if waking is not None:
            task.received = waking.received
            if waking.received is not None:
                task.use(waking.received, now)
        task.stop_waiting()
        task.raise_fence(now)
        task.claims += 1
        task.worker, task.wake_at = worker, after(now, lease)
        task.notified_until = task.mismatch_since = None
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
        task.save_seq, task.claims, task.last_error = task.save_seq + 1, 0, ""
        task.received = task.resume_at = None
        task.step_index, task.turn = save.next_index, save.next_turn
        task.max_attempts += save.more_attempts
        task.reserved_calls -= save.refund
        task.report(save.progress, save.progress_text)
        if save.ending not in ("enter", "stop"):
            task.stop_waiting()
        if save.ending in ("completed", "failed"):
            task.end(now, "cancelled" if save.ending == "failed" else "completed", save.reason)
        elif over and save.last:
            task.end(now, "completed", "")
        elif over:
            task.end(now, "cancelled", "deadline_passed" if task.cancel_requested is None else task.cancel_requested)
        elif save.ending == "enter":
            _enter_next(task, now, save)
        else:
            task.let_go(now)
            task.status, task.reason, task.wake_at = "ready", "", now
            task.notified_until = maybe_after(now, save.notify)
            if save.wait is not None:
                _wait(task, now, save.wait)
        _keep(task, now, save)
        self.memory.tasks.put(task)
        return Committed(task.status, task.reason, task.fence, task.attempts, task.cancel_requested, moment(now))

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
            task.end(now, "cancelled", failure.reason if asked is None else asked + failure.open_step)
        else:
            task.let_go(now)
            task.reason, task.resume_at, task.finished_at = "", after(now, failure.backoff), None
            task.wake_at = soonest(task.resume_at, task.deadline)
        task.notified_until = maybe_after(now, failure.notify)
        self.memory.tasks.put(task)
        return task.status

    def task_atomic(self, at: Position, work: Callable[[], Save]) -> Action[Committed | None]:
        return Immediate(_refuse_atomic)

    @writes
    def task_renew(self, now: int, renewals: Sequence[Renewal]) -> list[Renewed]:
        return [self._renew(now, renewal) for renewal in renewals]

    def _renew(self, now: int, renewal: Renewal) -> Renewed:
        task = self.memory.tasks.get(renewal.task)
        if task is None or task.fence != renewal.fence:
            return Renewed(False)
        task.wake_at, task.notified_until = after(now, renewal.lease), None
        task.report(renewal.progress, renewal.progress_text)
        self.memory.tasks.put(task)
        return Renewed(True, task.cancel_requested)


def _claimable(task: TaskRow, now: int, waking: Waking | None) -> bool:
    if bool(task.waiting_for) is not (waking is not None):
        return False
    ends = task.cancel_requested is not None or task.deadline is None or task.overdue(now)
    if not task.due(now) or ends or task.reason:
        return False
    if waking is None:
        return task.resume_at is None or task.resume_at <= now
    return waking.signal_seq == task.signal_seq and (waking.received is not None or task.timed_out(now))


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
        task.notified_until = None
        return
    reason = "attempts_exhausted" if task.attempts >= task.max_attempts else "budget_exhausted"
    task.raise_fence(now)
    task.status, task.reason, task.worker, task.wake_at = "ready", reason, "", None


def _wait(task: TaskRow, now: int, wait: Wait) -> None:
    task.resume_at = maybe_after(now, wait.delay)
    task.waiting_for, task.wait_spec, task.signals_seen = str.__str__(wait.name), wait.spec, wait.seen
    missed = bool(wait.name) and task.signal_seq != wait.seen
    task.wake_at = now if missed else soonest(task.resume_at, task.deadline)


def _keep(task: TaskRow, now: int, save: Save) -> None:
    """Keep what a commit saves: the state, and the items for the journal."""
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
    for item in save.items:
        task.note(now, "item", str.__str__(item.name), item.value)
    if save.forget_through is not None:
        for slot, saved in list(task.saves.items()):
            if saved.save_seq <= save.forget_through:
                del task.saves[slot]


def _refuse_atomic() -> Committed | None:
    raise NotSupported(
        "an atomic step needs a store on a database: memory takes part in no transaction. Give the definition a store "
        "with a DatabaseBackend, or the step another replay policy"
    )
