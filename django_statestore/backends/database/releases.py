"""How a lease on a durable task is renewed and given up, and what is decided on a task that nobody holds."""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.position import Position
from ...contracts.taskrecord import Status
from ...contracts.tasks import Failure, Renewal, Renewed, TaskPrimitives, Waking
from . import release_sql as sql
from .primitives import DatabasePrimitives, commits
from .task_sql import USE_MAIL
from .tasks import parameters_at


class ReleaseStatements(DatabasePrimitives, TaskPrimitives):
    """Fill in failure and renewal, and the decisions without a lease."""

    @commits
    def task_fail(self, at: Position, failure: Failure) -> Status | None:
        row = self.row(
            sql.FAIL,
            parameters_at(at)
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
        return self.touched(sql.CANCEL, parameters_at(at) | {"reason": reason})

    @commits
    def task_park(self, at: Position, reason: str, *, ready: bool = False) -> bool:
        return self.touched(sql.PARK, parameters_at(at) | {"reason": reason, "ready": ready})

    @commits
    def task_restore(self, at: Position) -> bool:
        return self.touched(sql.RESTORE, parameters_at(at))

    @commits
    def task_let_go(self, at: Position, reason: str, note: str, *, pause: int, grace: int) -> bool:
        parameters = {"reason": reason, "note": note, "pause": pause, "grace": grace}
        return self.touched(sql.LET_GO, parameters_at(at) | parameters)

    @commits
    def task_wait_again(self, at: Position, signal_seq: int) -> bool:
        return self.touched(sql.WAIT_AGAIN, parameters_at(at) | {"signal_seq": signal_seq})

    @commits
    def task_complete(self, at: Position, waking: Waking | None) -> bool:
        parameters = parameters_at(at)
        if waking is None:
            return self.touched(sql.COMPLETE_SLEEP, parameters)
        parameters |= {"signal_seq": waking.signal_seq, "received": waking.received}
        if waking.received is None:
            return self.touched(sql.COMPLETE_TIMED_OUT, parameters)
        if self.database.dialect.chains:
            return self.touched(sql.COMPLETE_CHAINED, parameters)
        with self.database.transaction():
            completed = self.touched(sql.COMPLETE_SIGNALLED, parameters)
            if completed:
                self.rows(USE_MAIL, parameters)
        return completed
