"""What the engine decides in memory about a task that nobody holds."""

from __future__ import annotations

from ...contracts.position import Position
from ...contracts.taskrecord import Status
from ...contracts.tasks import TaskPrimitives, Waking
from .clock import after
from .primitives import MemoryPrimitives, writes
from .taskrows import TaskRow, soonest


class UnheldOperations(MemoryPrimitives, TaskPrimitives):
    """Fill in what is decided without a lease."""

    @writes
    def task_cancel(self, now: int, at: Position, reason: str) -> bool:
        task = self._unheld(now, at)
        if task is None or (task.cancel_requested is None and not task.overdue(now)):
            return False
        _end(task, now, "cancelled", reason)
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
        task.worker, task.wake_at = "", task.rests_until(now)
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

    @writes
    def task_wait_again(self, now: int, at: Position, signal_seq: int) -> bool:
        task = self._unheld(now, at)
        if task is None or task.status != "ready" or not task.waiting_for or task.signal_seq != signal_seq:
            return False
        if task.reason or task.cancel_requested is not None:
            return False
        task.let_go(now)
        task.signals_seen, task.wake_at = signal_seq, soonest(task.resume_at, task.deadline)
        task.mismatch_since = None
        self.memory.tasks.put(task)
        return True

    @writes
    def task_complete(self, now: int, at: Position, waking: Waking | None) -> bool:
        task = self._unheld(now, at)
        if task is None or task.status != "ready" or task.cancel_requested is not None:
            return False
        if not _waited(task, now, waking):
            return False
        if waking is not None and waking.received is not None:
            task.use(waking.received, now)
        task.mismatch_since = None
        _end(task, now, "completed", "")
        self.memory.tasks.put(task)
        return True

    def _unheld(self, now: int, at: Position) -> TaskRow | None:
        """Return the task if it is still the version that was read, open, and nobody holds it."""
        task = self.memory.tasks.at(at)
        return task if task is not None and task.open and not task.held(now) else None


def _end(task: TaskRow, now: int, status: Status, reason: str) -> None:
    task.stop_waiting()
    task.claims = 0
    task.end(now, status, reason)


def _waited(task: TaskRow, now: int, waking: Waking | None) -> bool:
    """Return whether the sleep or wait of a last step is over."""
    ended = task.timed_out(now) or task.overdue(now)
    if waking is None:
        return not task.waiting_for and (task.resume_at is None or ended)
    if not task.waiting_for or task.signal_seq != waking.signal_seq:
        return False
    return waking.received is not None or ended
