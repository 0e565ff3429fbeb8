"""The engine's primitives on a database: claim, commit, fail, renew, and what is decided without a lease."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ...contracts.tasks import (
    RING,
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
from ...models.fields import instant
from . import task_sql as sql
from .connection import Row
from .primitives import DatabasePrimitives, commits, identity, reads, writes


class TaskStatements(DatabasePrimitives, TaskPrimitives):
    """Fill in the life of a task."""

    @writes
    def task_start(self, new: NewTask) -> bool:
        parameters = identity(new.entry) | {
            "driven": True,
            "definition": new.definition,
            "revision": new.revision,
            "fingerprint": new.fingerprint,
            "start_digest": new.start_digest,
            "state": new.state,
            "size": len(new.state),
            "max_attempts": new.max_attempts,
            "deadline": new.deadline,
            "max_calls": new.max_calls,
            "max_calls_per_attempt": new.max_calls_per_attempt,
            "retention": new.retention,
            "notify": new.notify,
        }
        if self.database.dialect.chains:
            return self.touched(sql.START_CHAINED, parameters)
        with self.database.transaction():
            started = self.touched(sql.INSERT_TASK, parameters)
            if started:
                self.rows(sql.START_SNAPSHOT, parameters)
        return started

    @reads
    def task_read(self, entry: Entry) -> TaskRecord | None:
        row = self.row(sql.READ, {"id": entry.digest})
        return record_of(row) if row else None

    @reads
    def task_sizes(self, task: int) -> list[tuple[int, int]]:
        return [(int(seq), int(size)) for seq, size in self.rows(sql.SIZES, {"task": task})]

    @commits
    def task_claim(self, at: Position, worker: str, lease: int, *, enter: bool, calls: int) -> Grant | None:
        template = sql.CLAIM_AND_ENTER if enter else sql.CLAIM
        return _grant(self.row(template, _at(at) | {"worker": worker, "lease": lease, "calls": calls}))

    @commits
    def task_enter(self, at: Position, *, calls: int) -> Grant | None:
        return _grant(self.row(sql.ENTER, _at(at) | {"calls": calls}))

    @commits
    def task_commit(self, at: Position, save: Save) -> Committed | None:
        parameters = _at(at) | {
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
        }
        forget = save.forget_through is not None
        if self.database.dialect.chains:
            return _committed(self.row(sql.CHAINED[save.ending, forget], parameters))
        with self.database.transaction():
            row = self.row(sql.UPDATES[save.ending], parameters)
            if row is not None:
                self.rows(sql.SNAPSHOT, parameters)
                if forget:
                    self.rows(sql.FORGET, parameters)
        return _committed(row)

    @commits
    def task_fail(self, at: Position, failure: Failure) -> Status | None:
        row = self.row(
            sql.FAIL,
            _at(at)
            | {
                "error": failure.error,
                "backoff": failure.backoff,
                "cancelled": failure.cancelled,
                "reason": failure.reason,
                "open_step": failure.open_step,
                "keep_claims": failure.keep_claims,
                "notify": failure.notify,
                "progress": failure.progress,
                "progress_text": failure.progress_text,
            },
        )
        return row[0] if row else None

    @commits
    def task_renew(self, renewals: Sequence[Renewal]) -> list[Renewed]:
        if self.database.dialect.chains:
            return self._renew_many(renewals)
        return [self._renew(renewal) for renewal in renewals]

    def _renew(self, renewal: Renewal) -> Renewed:
        row = self.row(
            sql.RENEW,
            {
                "task": renewal.task,
                "fence": renewal.fence,
                "lease": renewal.lease,
                "progress": renewal.progress,
                "progress_text": renewal.progress_text,
            },
        )
        return Renewed(True, row[0]) if row else Renewed(False)

    def _renew_many(self, renewals: Sequence[Renewal]) -> list[Renewed]:
        asked = {
            "tasks": [renewal.task for renewal in renewals],
            "fences": [renewal.fence for renewal in renewals],
            "leases": [renewal.lease for renewal in renewals],
            "progresses": [renewal.progress for renewal in renewals],
            "texts": [renewal.progress_text for renewal in renewals],
        }
        renewed: dict[int, str | None] = dict(self.rows(sql.RENEW_MANY, asked))
        if len(renewed) < len(renewals):
            # A row that was passed over because somebody has it locked is not a lost lease.
            renewed |= {task: None for (task,) in self.rows(sql.STILL_HELD, asked) if task not in renewed}
        return [
            Renewed(True, renewed[renewal.task]) if renewal.task in renewed else Renewed(False) for renewal in renewals
        ]

    @commits
    def task_cancel(self, at: Position, reason: str) -> bool:
        return self.touched(sql.CANCEL, _at(at) | {"reason": reason})

    @commits
    def task_park(self, at: Position, reason: str, *, ready: bool = False) -> bool:
        return self.touched(sql.PARK, _at(at) | {"reason": reason, "ready": ready})

    @commits
    def task_restore(self, at: Position) -> bool:
        return self.touched(sql.RESTORE, _at(at))

    @commits
    def task_let_go(self, at: Position, reason: str, note: str, *, pause: int, grace: int) -> bool:
        parameters = {"reason": reason, "note": note, "pause": pause, "grace": grace}
        return self.touched(sql.LET_GO, _at(at) | parameters)


def _at(at: Position) -> dict[str, Any]:
    return {"task": at.task, "fence": at.fence, "save_seq": at.save_seq}


def _moment(value: Any) -> datetime:
    moment = instant(value)
    assert moment is not None
    return moment


def _grant(row: Row | None) -> Grant | None:
    return Grant(int(row[0]), int(row[1]), _moment(row[2])) if row else None


def _committed(row: Row | None) -> Committed | None:
    if row is None:
        return None
    _, status, reason, fence, attempts, cancel_requested, read = row
    return Committed(status, reason, int(fence), int(attempts), cancel_requested, _moment(read))


_INSTANTS = {"deadline", "wake_at", "resume_at", "created_at", "finished_at", "now"}
_NAMES = [*sql.ROW, "state", "saved_attempts", "saved_by", "now"]


def record_of(row: Row) -> TaskRecord:
    values: dict[str, Any] = {
        name: instant(value) if name in _INSTANTS else value for name, value in zip(_NAMES, row, strict=True)
    }
    values["driven"] = bool(values["driven"])
    return TaskRecord(**values)
