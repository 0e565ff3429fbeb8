"""What the sweep and the purge ask of the memory."""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.mailbox import DueTask
from ...contracts.tasks import OpenTask, TaskPrimitives
from .clock import after
from .primitives import MemoryPrimitives, reads, writes
from .taskrows import TaskRow


class SweepOperations(MemoryPrimitives, TaskPrimitives):
    """Fill in what maintenance needs. Its cost is that of the tasks that are due, not of all."""

    @writes
    def tasks_notify(self, now: int, known: Sequence[str], grace: int, limit: int) -> list[DueTask]:
        fingerprints = set(known)
        silent = [
            task
            for task in self.memory.tasks.due(now)
            if task.fingerprint in fingerprints and (task.notified_until is None or task.notified_until <= now)
        ]
        chosen = sorted(silent, key=_longest)[:limit]
        for task in chosen:
            task.notified_until = after(now, grace)
        return [task.named for task in chosen]

    @reads
    def tasks_due(self, now: int, known: Sequence[str], limit: int) -> list[DueTask]:
        fingerprints = set(known)
        due = [task for task in self.memory.tasks.due(now) if task.fingerprint in fingerprints]
        return [task.named for task in sorted(due, key=_longest)[:limit]]

    @reads
    def tasks_open(self, now: int, after: int, limit: int) -> list[OpenTask]:
        return [task.shown for task in self.memory.tasks.open(after, limit)]

    @writes
    def task_unnotify(self, now: int, task: int) -> None:
        row = self.memory.tasks.get(task)
        if row is not None:
            row.notified_until = None

    @writes
    def tasks_diverge(self, now: int, known: Sequence[str], grace: int) -> list[DueTask]:
        fingerprints, parked = {*known, ""}, []
        for task in self.memory.tasks.due(now):
            if task.fingerprint in fingerprints:
                continue
            if task.mismatch_since is None:
                task.mismatch_since = now
            if task.mismatch_since <= after(now, -grace):
                task.reason, task.wake_at, task.worker, task.notified_until = "diverged", None, "", None
                task.raise_fence(now)
                self.memory.tasks.put(task)
                parked.append(task.named)
        return parked

    @writes
    def tasks_revive(self, now: int, known: Sequence[str]) -> int:
        fingerprints, revived = set(known), 0
        for task in self.memory.tasks.due(now):
            noted = task.mismatch_since
            if task.fingerprint in fingerprints and noted is not None and (task.wake_at or 0) <= noted:
                task.mismatch_since = None
        for task in self.memory.tasks.diverged():
            if task.fingerprint in fingerprints:
                task.reason, task.mismatch_since, task.wake_at, task.notified_until = "", None, now, None
                task.raise_fence(now)
                self.memory.tasks.put(task)
                revived += 1
        return revived

    @writes
    def tasks_purge(self, now: int, retention: int, limit: int) -> int:
        return self.memory.tasks.purge(now, retention, limit)

    @writes
    def job_started(self, now: int, kind: str) -> None:
        self.memory.jobs[kind] = (now, self.memory.jobs.get(kind, (now, None))[1])

    @writes
    def job_succeeded(self, now: int, kind: str) -> None:
        self.memory.jobs[kind] = (self.memory.jobs.get(kind, (now, None))[0], now)


def _longest(task: TaskRow) -> tuple[int, int]:
    """Put first what has been due longest."""
    return task.wake_at or 0, task.id
