"""Requests to a task: stored in its mailbox, applied to its row.

Inside a caller's open transaction only the mailbox row is written: a slow request would else hold the task's row and
block its worker. It is applied when that transaction has committed, or by the sweep.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from ...contracts.tasks import Asked, DueTask, TaskPrimitives
from ...keys import Entry
from .primitives import DatabasePrimitives, reads, writes

_OPEN = "status in ('ready', 'running')"

# The hot row first: it is what the rest waits for. A task that nobody holds becomes due, so that whoever looks ends it.
_ASK = f"""
update statestore_task set signal_seq = signal_seq + 1,
    cancel_requested = coalesce(cancel_requested, %(reason)s),
    wake_at = case when worker <> '' and wake_at > {{now}} then wake_at else {{now}} end,
    notified_until = case when worker <> '' and wake_at > {{now}} then notified_until end
where digest = %(id)s and {_OPEN}
returning id, signal_seq
"""

_STORE = f"""
insert into statestore_mailbox (task_id, kind, name, key, payload, sender, sent_at, seq, dropped)
select id, 'cancel', %(reason)s, null, 'null', %(sender)s, {{now}}, cast(%(seq)s as bigint), %(dropped)s
from statestore_task where digest = %(id)s and {_OPEN}
returning 1
"""

_PENDING = """
select m.id, m.name from statestore_mailbox m join statestore_task t on t.id = m.task_id
where t.digest = %(id)s and m.kind = 'cancel' and m.seq is null and not m.dropped order by m.id
"""

_APPLIED = "update statestore_mailbox set seq = %(seq)s where id = %(item)s and seq is null and not dropped"

_DROPPED = "update statestore_mailbox set dropped = true where id = %(item)s and seq is null"

_WAITING = """
select distinct t.id, t.namespace, t.key, t.fingerprint
from statestore_mailbox m join statestore_task t on t.id = m.task_id
where m.seq is null and not m.dropped and m.sent_at <= {before_clock[age]} limit %(limit)s
"""


class RequestStatements(DatabasePrimitives, TaskPrimitives):
    """Fill in cancel requests, and how a write stands to the caller's transaction."""

    @reads
    def task_deferred(self, write: Callable[[], None]) -> bool:
        other = None if self.database.in_transaction else self.database.block_elsewhere()
        if other is not None:
            transaction.on_commit(write, using=other, robust=True)
        return other is not None

    @reads
    def task_hints(self) -> bool:
        return self.database.tells_commit

    @reads
    def task_after_commit(self, call: Callable[[], None]) -> None:
        transaction.on_commit(call, using=self.database.alias, robust=True)

    @writes
    def task_request_cancel(self, entry: Entry, reason: str, sender: str) -> Asked:
        request = {"id": entry.digest, "reason": reason, "sender": sender, "dropped": False}
        # A row of ours that a caller's transaction holds would keep its worker from renewing: only the mailbox then.
        if self.database.in_transaction and not self.database.in_test_case:
            return "stored" if self.touched(_STORE, request | {"seq": None}) else "refused"
        with self.database.transaction():
            row = self.row(_ASK, request)
            if row is None:
                return "refused"
            self.rows(_STORE, request | {"seq": row[1]})
        return "applied"

    @writes
    def task_apply_requests(self, entry: Entry) -> None:
        with self.database.transaction():
            pending = self.rows(_PENDING, {"id": entry.digest})
            for item, reason in pending:
                row = self.row(_ASK, {"id": entry.digest, "reason": reason})
                if row is None:
                    self.rows(_DROPPED, {"item": item})
                else:
                    self.rows(_APPLIED, {"item": item, "seq": row[1]})

    @reads
    def tasks_with_requests(self, age: int, limit: int) -> list[DueTask]:
        return [DueTask(*row) for row in self.rows(_WAITING, {"age": age, "limit": limit})]
