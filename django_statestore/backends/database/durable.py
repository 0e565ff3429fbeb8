"""The durable contract for foreign engines on a database, on the same rows as the engine's own tasks.

A lease taken through the contract names the digest of its token as the row's worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...contracts.checkpoint import Checkpoint
from ...contracts.durable import DurablePrimitives
from ...contracts.taskrecord import RING
from ...keys import Entry
from . import commit_sql, task_sql
from .primitives import DatabasePrimitives, commits, commits_repeatably, identity, reads
from .tasks import record_of

# A row is made for an id that was never saved; on a task of the engine it is not asked whether the task is due.
_CLAIM = """
insert into statestore_task as t (
    digest, namespace, key, driven, definition, revision, fingerprint, status, step_index, turn, attempts,
    max_attempts, reserved_calls, reason, save_seq, journal_seq, fence, claims, worker, wake_at, waiting_for,
    wait_spec, signal_seq, signals_seen, progress_text, last_error, created_at
)
select %(id)s, %(namespace)s, %(key)s, false, '', '', '', 'ready', 0, 1, 0, 0, 0, '', 0, 0, {micros}, 0, %(worker)s,
    {after[lease]}, '', '', 0, 0, '', '', {now}
where not exists (
    select 1 from statestore_task
    where digest = %(id)s and worker <> '' and worker <> %(worker)s and wake_at > {now}
)
on conflict (digest) do update set
    fence = case
        when t.worker = %(worker)s and t.wake_at > {now} then t.fence else {greatest}(t.fence + 1, {micros})
    end,
    worker = %(worker)s, wake_at = {after[lease]}, notified_until = null
where t.worker = '' or t.worker = %(worker)s or t.wake_at is null or t.wake_at <= {now}
returning fence
"""

# A wait of the engine's is over where the save leaves its step.
_STILL_WAITS = "(status = 'ready' and %(status)s = 'ready' and step_index = %(step_index)s)"

_WRITTEN = f"""
waiting_for = case when {_STILL_WAITS} then waiting_for else '' end,
wait_spec = case when {_STILL_WAITS} then wait_spec else '' end,
resume_at = case when waiting_for = '' or {_STILL_WAITS} then resume_at end,
turn = case when step_index = %(step_index)s then turn else 1 end,
received = case when step_index = %(step_index)s then received end,
definition = %(definition)s, revision = %(revision)s, status = %(status)s, step_index = %(step_index)s,
attempts = %(attempts)s, max_attempts = %(max_attempts)s, deadline = {{epoch[deadline]}}, max_calls = %(max_calls)s,
reserved_calls = %(reserved)s, max_calls_per_attempt = %(per_attempt)s, save_seq = save_seq + 1,
finished_at = case when %(finished)s then coalesce(finished_at, {{now}}) end
"""

_COMMIT = f"""
update statestore_task set {_WRITTEN} where digest = %(id)s and worker = %(worker)s
returning id, save_seq, turn
"""

_RELEASE = f"""
update statestore_task set worker = '', {task_sql.RAISE_FENCE},
    wake_at = case
        when not driven then {{now}}
        when status in ('completed', 'cancelled') then null
        else {task_sql.WAKE}
    end
where digest = %(id)s and worker = %(worker)s
returning 1
"""

_RENEW = """
update statestore_task set wake_at = {after[lease]}, notified_until = null
where digest = %(id)s and worker = %(worker)s
returning 1
"""


class DurableStatements(DatabasePrimitives, DurablePrimitives):
    """Fill in the primitives of durable."""

    @reads
    def durable_load(self, entry: Entry) -> tuple[Checkpoint, str] | None:
        row = self.row(task_sql.READ, {"id": entry.digest})
        record = record_of(row) if row else None
        if record is None or record.state is None or record.deadline is None:
            return None
        return record.checkpoint(None), record.state

    @commits_repeatably
    def durable_claim(self, entry: Entry, token: bytes, lease: int) -> int | None:
        return self._claim(entry, token, lease)

    @commits_repeatably
    def durable_commit(self, entry: Entry, token: bytes, checkpoint: Checkpoint, payload: str) -> bool:
        with self.database.transaction():
            return self._write(entry, token, checkpoint, payload)

    @commits
    def durable_save(self, entry: Entry, checkpoint: Checkpoint, payload: str) -> bool:
        nobody = entry.digest  # the lease of this one write: it begins and ends in one transaction
        with self.database.transaction():
            if self._claim(entry, nobody, 1000) is None:
                return False
            self._write(entry, nobody, checkpoint, payload)
            return self._release(entry, nobody)

    @commits_repeatably
    def durable_renew(self, held: Sequence[tuple[Entry, bytes, int]]) -> list[bool]:
        return [self.touched(_RENEW, _holder(entry, token) | {"lease": lease}) for entry, token, lease in held]

    @commits
    def durable_release(self, entry: Entry, token: bytes) -> bool:
        return self._release(entry, token)

    def _claim(self, entry: Entry, token: bytes, lease: int) -> int | None:
        row = self.row(_CLAIM, identity(entry) | _holder(entry, token) | {"lease": lease})
        return int(row[0]) if row else None

    def _release(self, entry: Entry, token: bytes) -> bool:
        return self.touched(_RELEASE, _holder(entry, token))

    def _write(self, entry: Entry, token: bytes, checkpoint: Checkpoint, payload: str) -> bool:
        budget = checkpoint.model_budget
        row = self.row(
            _COMMIT,
            _holder(entry, token)
            | {
                "definition": checkpoint.definition_id,
                "revision": checkpoint.revision,
                "status": checkpoint.status,
                "step_index": checkpoint.next_step_index,
                "attempts": checkpoint.attempt_count,
                "max_attempts": checkpoint.max_attempts,
                "deadline": checkpoint.deadline_at_ms,
                "max_calls": budget.max_calls if budget else None,
                "reserved": budget.reserved_calls if budget else 0,
                "per_attempt": budget.max_calls_per_attempt if budget else None,
                "finished": checkpoint.status in ("completed", "cancelled"),
            },
        )
        if row is None:
            return False
        task, save_seq, turn = row
        saved: dict[str, Any] = {
            "task": task,
            "slot": save_seq % RING,
            "next_seq": save_seq,
            "next_index": checkpoint.next_step_index,
            "step": "",
            "turn": turn,
            "spent": checkpoint.attempt_count,
            "outcome": "saved",
            "state": payload,
            "size": len(payload),
            "saved_by": "",
            "milliseconds": None,
        }
        self.rows(commit_sql.SNAPSHOT_ALONE, saved)
        return True


def _holder(entry: Entry, token: bytes) -> dict[str, Any]:
    return {"id": entry.digest, "worker": f"token:{token.hex()}"}
