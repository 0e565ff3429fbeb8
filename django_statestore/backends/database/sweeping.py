"""What the sweep and the purge ask of a database, in short batches that two may run at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...contracts.mailbox import DueTask
from ...contracts.tasks import TaskPrimitives
from .primitives import DatabasePrimitives, reads, writes

# One that has ended keeps the end of a lease of the contract, where that has lapsed.
_DUE = "driven and status in ('ready', 'running') and wake_at <= {clock}"

_UNNOTIFIED = "(notified_until is null or notified_until <= {clock})"

# The look-up goes along the index, those due longest first, for the planner cannot know how few are due; it passes over
# locked rows, so it never waits for another. The update repeats the test on the row itself.
_NOTIFY = f"""
update statestore_task set notified_until = {{after[grace]}}
where id {{batch}}
    select id from statestore_task where {_DUE} and {_UNNOTIFIED} and fingerprint in (*) order by wake_at
    limit %(limit)s {{end}}
) and wake_at <= {{now}} and (notified_until is null or notified_until <= {{now}})
returning id, namespace, key, fingerprint
"""

_DUE_TASKS = f"""
select id, namespace, key, fingerprint from statestore_task where {_DUE} and fingerprint in (*)
order by wake_at limit %(limit)s
"""

_UNNOTIFY = "update statestore_task set notified_until = null where id = %(task)s"

_NOTE = f"""
update statestore_task set mismatch_since = {{now}}
where id {{batch}}
    select id from statestore_task where {_DUE} and fingerprint not in (*) and mismatch_since is null
    order by wake_at limit 500 {{end}}
)
"""

_DIVERGE = f"""
update statestore_task set reason = 'diverged', wake_at = null, worker = '', notified_until = null,
    fence = {{greatest}}(fence + 1, {{micros}})
where id {{batch}}
    select id from statestore_task where {_DUE} and fingerprint not in (*)
    and mismatch_since <= {{before_clock[grace]}} order by wake_at limit 500 {{end}}
) and wake_at <= {{now}}
returning id, namespace, key, fingerprint
"""

_REVIVE = """
update statestore_task set reason = '', mismatch_since = null, wake_at = {now}, notified_until = null,
    fence = {greatest}(fence + 1, {micros})
where id {batch}
    select id from statestore_task where reason = 'diverged' and wake_at is null and fingerprint in (*)
    and status in ('ready', 'running') order by id limit 500 {end}
)
returning 1
"""

# A task that was noted while it was due and has been since only stands in a queue, where its code is at work. One that
# was let go is due at a later time than that of its note: whoever did so may have its code and not read its state.
_FORGET = f"""
update statestore_task set mismatch_since = null
where id {{batch}}
    select id from statestore_task where {_DUE} and fingerprint in (*) and wake_at <= mismatch_since
    order by mismatch_since limit 500 {{end}}
)
"""

_FREE = "(worker = '' or wake_at is null or wake_at <= {clock})"

_SAVED = "exists (select 1 from statestore_snapshot s where s.task_id = statestore_task.id)"

# What the purge takes: where, and in which order. A delete repeats the test, for the row may have come back to life.
_PURGED = (
    (f"finished_at <= {{before_clock[retention]}} and retention is null and {_FREE}", "finished_at"),
    (f"retention is not null and finished_at <= {{clock_before[retention]}} and {_FREE}", "finished_at"),
    (f"not driven and save_seq = 0 and wake_at <= {{before_clock[day]}} and not {_SAVED}", "id"),
)

_PARTS = ("statestore_snapshot", "statestore_journal", "statestore_mailbox", "statestore_spool_use")

_DAY = 86_400_000

_STARTED = """
insert into statestore_job as j (store, kind, started_at) values (%(store)s, %(kind)s, {now})
on conflict (store, kind) do update set started_at = {now}
"""

_SUCCEEDED = "update statestore_job set succeeded_at = {now} where store = %(store)s and kind = %(kind)s"


def _among(template: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """Return the template with ``(*)`` as a list of parameters, and these."""
    names = [f"among{number}" for number in range(len(values))]
    listed = ", ".join(f"%({name})s" for name in names) or "null"
    return template.replace("(*)", f"({listed})"), dict(zip(names, values, strict=True))


class SweepStatements(DatabasePrimitives, TaskPrimitives):
    """Fill in what maintenance needs."""

    alias: str

    @writes
    def tasks_notify(self, known: Sequence[str], grace: int, limit: int) -> list[DueTask]:
        template, among = _among(_NOTIFY, known)
        return [DueTask(*row) for row in self.rows(template, among | {"grace": grace, "limit": limit})]

    @reads
    def tasks_due(self, known: Sequence[str], limit: int) -> list[DueTask]:
        template, among = _among(_DUE_TASKS, known)
        return [DueTask(*row) for row in self.rows(template, among | {"limit": limit})]

    @writes
    def task_unnotify(self, task: int) -> None:
        self.rows(_UNNOTIFY, {"task": task})

    @writes
    def tasks_diverge(self, known: Sequence[str], grace: int) -> list[DueTask]:
        values = [*known, ""]  # never an empty list: NOT IN (NULL) holds for nothing
        template, among = _among(_NOTE, values)
        self.rows(template, among)
        template, among = _among(_DIVERGE, values)
        return [DueTask(*row) for row in self.rows(template, among | {"grace": grace})]

    @writes
    def tasks_revive(self, known: Sequence[str]) -> int:
        template, among = _among(_FORGET, known)
        self.rows(template, among)
        template, among = _among(_REVIVE, known)
        return len(self.rows(template, among))

    @writes
    def tasks_purge(self, retention: int, limit: int) -> int:
        gone, bounds = 0, {"retention": retention, "day": _DAY}
        for condition, order in _PURGED:
            find = f"select id from statestore_task where {condition} order by {order} limit %(limit)s"
            delete = f"delete from statestore_task where id = %(task)s and {condition} returning 1"
            found = self.rows(find, bounds | {"limit": limit - gone}) if limit > gone else []
            for (task,) in found:
                with self.database.transaction():
                    # The task first: whoever would add to it waits for this row, and then finds none.
                    if not self.touched(delete, bounds | {"task": task}):
                        continue
                    for table in _PARTS:
                        self.rows(f"delete from {table} where task_id = %(task)s", {"task": task})
                gone += 1
        return gone

    @writes
    def job_started(self, kind: str) -> None:
        self.rows(_STARTED, {"store": self.alias, "kind": kind})

    @writes
    def job_succeeded(self, kind: str) -> None:
        self.rows(_SUCCEEDED, {"store": self.alias, "kind": kind})
