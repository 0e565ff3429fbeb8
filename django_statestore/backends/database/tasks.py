"""The life of a durable task on a database: start, read, claim, enter, commit."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...contracts.position import Position
from ...contracts.taskrecord import RING, NewTask, TaskRecord
from ...contracts.tasks import Committed, Grant, Save, TaskPrimitives, Wait, Waking
from ...keys import Entry
from ...models.fields import instant
from . import commit_sql
from . import task_sql as sql
from .connection import Row
from .primitives import DatabasePrimitives, commits, identity, reads, writes


class TaskStatements(DatabasePrimitives, TaskPrimitives):
    """Fill in the life of a task."""

    @writes
    def task_start(self, new: NewTask) -> bool:
        parameters = new_task(new, outcome="started")
        if self.database.dialect.chains:
            return self.touched(sql.START_CHAINED, parameters)
        with self.database.transaction():
            return self.insert_task(parameters) is not None

    def insert_task(self, parameters: dict[str, Any]) -> int | None:
        """Insert a task and its first state, and return its id; None: it is taken. Call it within a transaction."""
        row = self.row(sql.INSERT_TASK, parameters)
        if row is None:
            return None
        self.rows(sql.START_SNAPSHOT, parameters)
        return int(row[0])

    @reads
    def task_read(self, entry: Entry) -> TaskRecord | None:
        row = self.row(sql.READ, {"id": entry.digest})
        return record_of(row) if row else None

    @reads
    def task_sizes(self, task: int) -> list[tuple[int, int]]:
        return [(int(seq), int(size)) for seq, size in self.rows(sql.SIZES, {"task": task})]

    @commits
    def task_claim(
        self, at: Position, worker: str, lease: int, *, enter: bool, calls: int, waking: Waking | None = None
    ) -> Grant | None:
        parameters = parameters_at(at) | {"worker": worker, "lease": lease, "calls": calls}
        if waking is None:
            return _grant(self.row(sql.CLAIMS["plain", enter], parameters))
        parameters |= {"signal_seq": waking.signal_seq, "received": waking.received}
        if waking.received is None:
            return _grant(self.row(sql.CLAIMS["timed out", enter], parameters))
        if self.database.dialect.chains:
            return _grant(self.row(sql.CLAIMS_CHAINED[enter], parameters))
        with self.database.transaction():
            row = self.row(sql.CLAIMS["signalled", enter], parameters)
            if row is not None:
                self.rows(sql.USE_MAIL, parameters)
        return _grant(row)

    @commits
    def task_enter(self, at: Position, *, calls: int) -> Grant | None:
        return _grant(self.row(sql.ENTER, parameters_at(at) | {"calls": calls}))

    @commits
    def task_commit(self, at: Position, save: Save) -> Committed | None:
        return self.commit(at, save)

    def commit(self, at: Position, save: Save) -> Committed | None:
        """Commit a save, in the transaction that is open, or in one of its own."""
        parameters, items = parameters_at(at) | saved(at, save), save.items
        forget = save.forget_through is not None
        if self.database.dialect.chains:
            if items:
                parameters |= {
                    "item_names": [item.name for item in items],
                    "item_values": [item.value for item in items],
                }
            return _committed(self.row(commit_sql.CHAINED[save.ending, forget, bool(items)], parameters))
        with self.database.transaction():
            row = self.row(commit_sql.UPDATES[save.ending], parameters)
            if row is not None:
                self.rows(commit_sql.SNAPSHOT, parameters)
                if forget:
                    self.rows(commit_sql.FORGET, parameters)
                for number, item in enumerate(items, int(row[-1]) - len(items) + 1):
                    line = {"number": number, "name": item.name, "value": item.value}
                    self.rows(commit_sql.ITEM, parameters | line)
        return _committed(row)


def parameters_at(at: Position) -> dict[str, Any]:
    return {"task": at.task, "fence": at.fence, "save_seq": at.save_seq}


def saved(at: Position, save: Save) -> dict[str, Any]:
    """Return the parameters of the statements that commit a save."""
    wait = save.wait or Wait(None)
    return {
        "slot": (at.save_seq + 1) % RING,
        "next_seq": at.save_seq + 1,
        "next_index": save.next_index,
        "next_turn": save.next_turn,
        "more_attempts": save.more_attempts,
        "refund": save.refund,
        "calls": save.calls,
        "lease": save.lease,
        "two_thirds": save.lease * 2 // 3,
        "notify": save.notify,
        "status": "cancelled" if save.ending == "failed" else "completed",
        "reason": save.reason,
        "progress": save.progress,
        "progress_text": save.progress_text,
        "step": save.step,
        "turn": save.turn,
        "spent": save.attempts,
        "outcome": save.outcome,
        "state": save.state,
        "size": len(save.state),
        "saved_by": save.worker,
        "milliseconds": save.milliseconds,
        "forget_through": save.forget_through,
        "item_count": len(save.items),
        "last": save.last,
        "delay": wait.delay,
        "wait_name": wait.name,
        "wait_spec": wait.spec,
        "seen": wait.seen,
    }


def new_task(new: NewTask, *, step_index: int = 0, forked_from: int | None = None, outcome: str) -> dict[str, Any]:
    """Return the parameters of the statements that insert a task and its first state."""
    return identity(new.entry) | {
        "driven": True,
        "definition": new.definition,
        "revision": new.revision,
        "fingerprint": new.fingerprint,
        "start_digest": new.start_digest,
        "forked_from": forked_from,
        "step_index": step_index,
        "outcome": outcome,
        "state": new.state,
        "size": len(new.state),
        "max_attempts": new.max_attempts,
        "deadline": new.deadline,
        "not_before": new.not_before,
        "max_calls": new.max_calls,
        "max_calls_per_attempt": new.max_calls_per_attempt,
        "retention": new.retention,
        "notify": new.notify,
    }


def moment(value: Any) -> datetime:
    """Return an instant that is never NULL."""
    read = instant(value)
    assert read is not None
    return read


def _grant(row: Row | None) -> Grant | None:
    return Grant(int(row[0]), int(row[1]), moment(row[2])) if row else None


def _committed(row: Row | None) -> Committed | None:
    if row is None:
        return None
    _, status, reason, fence, attempts, cancel_requested, read, _ = row
    return Committed(status, reason, int(fence), int(attempts), cancel_requested, moment(read))


_INSTANTS = {"deadline", "wake_at", "resume_at", "mismatch_since", "created_at", "finished_at", "now"}
_NAMES = [*sql.ROW, "state", "saved_attempts", "saved_by", "now"]


def record_of(row: Row) -> TaskRecord:
    values: dict[str, Any] = {
        name: instant(value) if name in _INSTANTS else value for name, value in zip(_NAMES, row, strict=True)
    }
    values["driven"] = bool(values["driven"])
    return TaskRecord(**values)
