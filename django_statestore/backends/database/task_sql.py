"""The statements that start, read, claim and enter a durable task, and the parts that all its statements share.

Each names the fence of its author in WHERE, and the database locks the one row that it decides on, so the decision is
made on the row as it is now: by its columns only, for whatever else a statement looks at is as old as its beginning.
"""

from __future__ import annotations

from dataclasses import fields

from ...contracts.taskrecord import RING, TaskRecord

ROW = [field.name for field in fields(TaskRecord) if field.name not in {"state", "saved_attempts", "saved_by", "now"}]

SNAPSHOT_COLUMNS = (
    "task_id, slot, save_seq, step_index, step, turn, attempts, outcome, state, size, worker, milliseconds, saved_at"
)

JOURNAL_COLUMNS = "task_id, number, kind, name, occurrence, arguments, save_seq, value, sender, created_at"

# -- the parts --------------------------------------------------------------------------------------------------------

RAISE_FENCE = "fence = {greatest}(fence + 1, {micros})"

AT = "id = %(task)s and fence = %(fence)s and save_seq = %(save_seq)s"

OPEN = "status in ('ready', 'running')"

FREE = "(worker = '' or wake_at is null or wake_at <= {now})"

UNHELD = f"{AT} and {OPEN} and {FREE}"

END_WAIT = "waiting_for = '', wait_spec = ''"

# A sleep or wait ends with its time, but never after the deadline; more that was asked of a waiting task ends it now.
_WAKES = """
    when waiting_for <> '' and signal_seq <> signals_seen then {now}
    when waiting_for <> '' or resume_at is not null then {least}(coalesce(resume_at, deadline), deadline)
"""

WAKE = f"case when cancel_requested is not null then {{now}} when reason <> '' then null {_WAKES} else {{now}} end"
"""When an open task that nobody holds is due, from what the row says."""

WAKE_FROM_WAIT = f"case {_WAKES} else wake_at end"
"""The same for one that is not parked; one that neither sleeps nor waits is left as due as it is."""

# -- start and read ---------------------------------------------------------------------------------------------------

INSERT_TASK = """
insert into statestore_task (
    digest, namespace, key, driven, definition, revision, fingerprint, start_digest, forked_from, status, step_index,
    turn, attempts, max_attempts, deadline, max_calls, reserved_calls, max_calls_per_attempt, reason, save_seq,
    journal_seq, fence, claims, worker, wake_at, resume_at, notified_until, waiting_for, wait_spec, signal_seq,
    signals_seen, progress_text, last_error, created_at, retention
)
select %(id)s, %(namespace)s, %(key)s, %(driven)s, %(definition)s, %(revision)s, %(fingerprint)s, %(start_digest)s,
    %(forked_from)s, 'ready', %(step_index)s, 1, 0, %(max_attempts)s, {after_read[deadline]}, %(max_calls)s, 0,
    %(max_calls_per_attempt)s, '', 0, 0, 0, 0, '',
    {least}(coalesce({epoch[not_before]}, {read}), {after_read[deadline]}), {epoch[not_before]}, {after_read[notify]},
    '', '', 0, 0, '', '', {read}, %(retention)s
{from_clock} where true
on conflict (digest) do nothing
returning id
"""

_FIRST_SNAPSHOT = f"""
insert into statestore_snapshot ({SNAPSHOT_COLUMNS})
select id, 0, 0, step_index, '', 1, 0, %(outcome)s, %(state)s, %(size)s, '', null, created_at
"""

START_CHAINED = f"""
with changed as ({INSERT_TASK}, step_index, created_at),
first as ({_FIRST_SNAPSHOT} from changed)
select id from changed
"""

START_SNAPSHOT = f"{_FIRST_SNAPSHOT} from statestore_task where digest = %(id)s"

READ = f"""
select {", ".join(f"t.{name}" for name in ROW)}, s.state, coalesce(s.attempts, 0), coalesce(s.worker, ''), {{now}}
from statestore_task t
left join statestore_snapshot s on s.task_id = t.id and s.slot = t.save_seq %% {RING} and s.save_seq = t.save_seq
where t.digest = %(id)s
"""

SIZES = "select save_seq, size from statestore_snapshot where task_id = %(task)s order by save_seq"

# -- claim and enter --------------------------------------------------------------------------------------------------

_ROOM = """
attempts < max_attempts and (max_calls is null or reserved_calls + %(calls)s <= max_calls)
"""

_ENTERED = """
status = 'running', attempts = attempts + 1, reserved_calls = reserved_calls + %(calls)s, entered_at = {now}
"""

_CLAIMED = f"""
{RAISE_FENCE}, claims = claims + 1, worker = %(worker)s, wake_at = {{after[lease]}}, resume_at = null,
notified_until = null, mismatch_since = null
"""

_CLAIMABLE = f"{AT} and wake_at <= {{now}} and deadline > {{now}} and cancel_requested is null and reason = ''"

# What else the claim asks for and sets. Its author has looked in the mailbox up to the ``signal_seq`` that it names: a
# signal that was acknowledged since then, or is being stored at this moment, is not passed over.
_WAYS = {
    "plain": ("waiting_for = '' and (resume_at is null or resume_at <= {now})", ""),
    "timed out": (
        "waiting_for <> '' and signal_seq = %(signal_seq)s and resume_at <= {now}",
        f", {END_WAIT}, received = null",
    ),
    "signalled": (
        "waiting_for <> '' and signal_seq = %(signal_seq)s",
        f", {END_WAIT}, received = %(received)s",
    ),
}


def _claim(way: str, *, enter: bool) -> str:
    asked, also = _WAYS[way]
    entered, room = (f", {_ENTERED}", f" and {_ROOM}") if enter else ("", "")
    return f"""
    update statestore_task set {_CLAIMED}{entered}{also} where {_CLAIMABLE} and {asked}{room}
    returning fence, attempts, {{now}} as read
    """


CLAIMS = {(way, enter): _claim(way, enter=enter) for way in _WAYS for enter in (False, True)}

USE_MAIL = """
update statestore_mailbox set used_at = {now} where id = %(received)s and task_id = %(task)s and used_at is null
"""


def using_mail(update: str, columns: str) -> str:
    """Return the update, and the use of the signal that it names, as one statement."""
    return f"""
    with changed as ({update}), used as ({USE_MAIL} and exists (select 1 from changed)) select {columns} from changed
    """


CLAIMS_CHAINED = {enter: using_mail(CLAIMS["signalled", enter], "fence, attempts, read") for enter in (False, True)}

ENTER = f"""
update statestore_task set {_ENTERED}
where {AT} and {_ROOM} and cancel_requested is null and deadline > {{now}}
returning fence, attempts, {{now}}
"""
