"""The kept saves of a task in memory, and what an operator does by them."""

from __future__ import annotations

from ...contracts.history import Fork, Repair, RepairSave, SavedStep
from ...contracts.position import Position
from ...contracts.taskrecord import NewTask
from ...contracts.tasks import TaskPrimitives
from ...exceptions import TaskNotFound
from .clock import maybe_after
from .parts import Saved
from .primitives import MemoryPrimitives, reads, writes
from .taskrows import TaskRow


class HistoryOperations(MemoryPrimitives, TaskPrimitives):
    """Fill in history, fork and repair."""

    @reads
    def task_history(self, now: int, task: int) -> list[SavedStep]:
        row = self.memory.tasks.get(task)
        saves = [] if row is None else sorted(row.saves.values(), key=lambda saved: saved.save_seq)
        return [saved.shown for saved in saves]

    @reads
    def task_saved(self, now: int, task: int, save: int) -> str | None:
        row = self.memory.tasks.get(task)
        found = None if row is None else row.saved(save)
        return None if found is None else found.state

    @writes
    def task_fork(self, now: int, new: NewTask, fork: Fork) -> bool:
        tasks = self.memory.tasks
        source = tasks.get(fork.source)
        if source is None:
            raise TaskNotFound("the task to be forked is gone")
        if tasks.of(new.entry) is not None:
            return False
        task = tasks.started(new, now, outcome="forked", next_index=fork.next_index)
        task.forked_from = fork.source
        for line in source.journal:
            if line.kind == "item" and fork.through is not None and line.save_seq <= fork.through:
                task.note(line.created_at, "item", line.name, line.value)
        tasks.put(task)
        self.memory.blobs.copy_uses(fork.source, task.id, now)
        return True

    @writes
    def task_repair(self, now: int, at: Position, repair: Repair) -> bool:
        task, save = self.memory.tasks.at(at), repair.save
        if task is None or not task.open or task.held(now):
            return False
        rests = task.rests(now) and task.cancel_requested is None and (save is None or save.keeps_turn)
        task.raise_fence(now)
        task.worker, task.reason, task.claims, task.mismatch_since = "", "", 0, None
        if rests:
            task.wake_at, task.notified_until = task.rests_until(now), None
        else:
            task.resume_at, task.wake_at, task.notified_until = None, now, maybe_after(now, repair.notify)
        if repair.action == "mark_not_done":
            task.status = "ready"
        if save is not None:
            _save(task, now, save)
        task.note(now, "repair", repair.action, repair.note, sender=str.__str__(repair.sender))
        self.memory.tasks.put(task)
        return True


def _save(task: TaskRow, now: int, save: RepairSave) -> None:
    task.save_seq, task.last_error = task.save_seq + 1, ""
    task.keep(
        Saved(
            task.save_seq,
            save.next_index,
            save.step,
            task.turn,
            task.attempts,
            save.outcome,
            save.state,
            "",
            None,
            now,
        )
    )
    ends = save.status == "completed"
    if ends or not save.keeps_turn:
        task.stop_waiting()
        task.received = None
    if ends:
        task.wake_at, task.notified_until, task.finished_at = None, None, now
    task.status, task.step_index, task.turn = save.status, save.next_index, task.turn if save.keeps_turn else 1
    task.definition, task.revision, task.fingerprint = map(
        str.__str__, (save.definition, save.revision, save.fingerprint)
    )
