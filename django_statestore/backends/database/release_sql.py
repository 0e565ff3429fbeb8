"""The statements that renew a lease, let go of it, and decide on a durable task that nobody holds."""

from __future__ import annotations

from .task_sql import AT, END_WAIT, OPEN, RAISE_FENCE, UNHELD, WAKE, using_mail

_ENDS = "(%(cancelled)s or cancel_requested is not null)"

FAIL = f"""
update statestore_task set {RAISE_FENCE}, worker = '', entered_at = null, last_error = %(error)s,
    claims = case when %(keep_claims)s then claims else 0 end,
    status = case when {_ENDS} then 'cancelled' else status end,
    reason = case when {_ENDS} then coalesce(cancel_requested || %(open_step)s, %(reason)s) else '' end,
    resume_at = case when {_ENDS} then null else {{after_read[backoff]}} end,
    wake_at = case when {_ENDS} then null else {{least}}({{after_read[backoff]}}, deadline) end,
    notified_until = {{after_read[notify]}},
    finished_at = case when {_ENDS} then {{read}} end,
    progress = coalesce(cast(%(progress)s as double precision), progress),
    progress_text = coalesce(cast(%(progress_text)s as text), progress_text)
{{from_clock}} where {AT}
returning status
"""

_RELEASED = f"{RAISE_FENCE}, worker = '', entered_at = null, notified_until = null"

# A wait goes on where it was once its task may go on, up to the same time; a sleep or back-off was over.
_KEEP_WAIT = "resume_at = case when waiting_for <> '' then resume_at end"

_ENDED = f"{_RELEASED}, resume_at = null, {END_WAIT}, claims = 0, wake_at = null, finished_at = {{now}}"

CANCEL = f"""
update statestore_task set {_ENDED}, status = 'cancelled', reason = %(reason)s
where {UNHELD} and (cancel_requested is not null or deadline <= {{now}})
returning 1
"""

# Whoever parks has just read the row as due, or holds its lease; the fence tells that neither has changed.
PARK = f"""
update statestore_task set {_RELEASED}, {_KEEP_WAIT}, reason = %(reason)s, wake_at = null,
    status = case when %(ready)s then 'ready' else status end
where {AT} and {OPEN} and cancel_requested is null
returning 1
"""

LET_GO = f"""
update statestore_task set {_RELEASED}, {_KEEP_WAIT}, last_error = %(note)s,
    mismatch_since = coalesce(mismatch_since, {{now}}),
    reason = case when mismatch_since <= {{before_clock[grace]}} then %(reason)s else reason end,
    wake_at = case when mismatch_since <= {{before_clock[grace]}} then null else {{after[pause]}} end
where {UNHELD} and wake_at <= {{now}}
returning 1
"""

# A lease that the contract took on a task of the engine has lapsed: the task is as due, or as parked, as it was.
RESTORE = f"""
update statestore_task set {RAISE_FENCE}, worker = '', wake_at = {WAKE}
where {UNHELD} and wake_at <= {{now}} and cancel_requested is null and (reason <> '' or resume_at > {{now}})
returning 1
"""

WAIT_AGAIN = f"""
update statestore_task set {RAISE_FENCE}, worker = '', notified_until = null, signals_seen = signal_seq,
    mismatch_since = null, wake_at = {{least}}(coalesce(resume_at, deadline), deadline)
where {UNHELD} and status = 'ready' and waiting_for <> '' and reason = '' and cancel_requested is null
    and signal_seq = %(signal_seq)s
returning 1
"""

_COMPLETE = f"""
update statestore_task set {_ENDED}, status = 'completed', reason = '', mismatch_since = null
where {UNHELD} and status = 'ready' and cancel_requested is null
"""

COMPLETE_SLEEP = f"""
{_COMPLETE} and waiting_for = '' and (resume_at is null or resume_at <= {{now}} or deadline <= {{now}})
returning 1
"""

COMPLETE_TIMED_OUT = f"""
{_COMPLETE} and waiting_for <> '' and signal_seq = %(signal_seq)s and (resume_at <= {{now}} or deadline <= {{now}})
returning 1
"""

COMPLETE_SIGNALLED = f"{_COMPLETE} and waiting_for <> '' and signal_seq = %(signal_seq)s returning 1 as done"

COMPLETE_CHAINED = using_mail(COMPLETE_SIGNALLED, "done")

RENEW = """
update statestore_task set wake_at = {after[lease]}, notified_until = null,
    progress = coalesce(cast(%(progress)s as double precision), progress),
    progress_text = coalesce(cast(%(progress_text)s as text), progress_text)
where id = %(task)s and fence = %(fence)s
returning cancel_requested
"""

# Rows are locked in the order of their ids, and a locked one is passed over: a sweep or commit beside it never waits
# for this and this never waits for them.
RENEW_MANY = """
with asked as (
    select * from unnest(%(tasks)s::bigint[], %(fences)s::bigint[], %(leases)s::bigint[], %(progresses)s::float8[],
        %(texts)s::text[]) as a(id, fence, lease, progress, progress_text)
), free as (
    select t.id from statestore_task t join asked a on a.id = t.id and a.fence = t.fence order by t.id
    for update of t skip locked
)
update statestore_task t set wake_at = clock_timestamp() + a.lease * interval '1 millisecond', notified_until = null,
    progress = coalesce(a.progress, t.progress), progress_text = coalesce(a.progress_text, t.progress_text)
from asked a, free where free.id = t.id and a.id = t.id and a.fence = t.fence
returning t.id, t.cancel_requested
"""

STILL_HELD = """
select t.id from statestore_task t
join unnest(%(tasks)s::bigint[], %(fences)s::bigint[]) as a(id, fence) on a.id = t.id and a.fence = t.fence
"""
