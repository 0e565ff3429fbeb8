"""The statements that claim, commit and release a durable task: the heart of the engine.

Each names the fence of its author in WHERE, and the database locks the one row that it decides on, so the decision is
made on the row as it is now. What a commit decides is written as CASE over that row, by one reading of the clock.
"""

from __future__ import annotations

from dataclasses import fields

from ...contracts.tasks import RING, TaskRecord

ROW = [field.name for field in fields(TaskRecord) if field.name not in {"state", "saved_attempts", "saved_by", "now"}]

_SNAPSHOT_COLUMNS = (
    "task_id, slot, save_seq, step_index, step, turn, attempts, outcome, state, size, worker, milliseconds, saved_at"
)

# -- start and read ---------------------------------------------------------------------------------------------------

INSERT_TASK = """
insert into statestore_task (
    digest, namespace, key, driven, definition, revision, fingerprint, start_digest, status, step_index, turn,
    attempts, max_attempts, deadline, max_calls, reserved_calls, max_calls_per_attempt, reason, save_seq, journal_seq,
    fence, claims, worker, wake_at, notified_until, waiting_for, wait_spec, signal_seq, signals_seen, progress_text,
    last_error, created_at, retention
) values (
    %(id)s, %(namespace)s, %(key)s, %(driven)s, %(definition)s, %(revision)s, %(fingerprint)s, %(start_digest)s,
    'ready', 0, 1, 0, %(max_attempts)s, {after[deadline]}, %(max_calls)s, 0, %(max_calls_per_attempt)s, '', 0, 0,
    0, 0, '', {now}, {after[notify]}, '', '', 0, 0, '', '', {now}, %(retention)s
)
on conflict (digest) do nothing
returning id
"""

FIRST_SNAPSHOT = f"""
insert into statestore_snapshot ({_SNAPSHOT_COLUMNS})
select id, 0, 0, 0, '', 1, 0, 'started', %(state)s, %(size)s, '', null, created_at
"""

START_CHAINED = f"""
with changed as ({INSERT_TASK}, created_at),
first as ({FIRST_SNAPSHOT} from changed)
select id from changed
"""

START_SNAPSHOT = f"{FIRST_SNAPSHOT} from statestore_task where digest = %(id)s"

READ = f"""
select {", ".join(f"t.{name}" for name in ROW)}, s.state, coalesce(s.attempts, 0), coalesce(s.worker, ''), {{now}}
from statestore_task t
left join statestore_snapshot s on s.task_id = t.id and s.slot = t.save_seq %% {RING} and s.save_seq = t.save_seq
where t.digest = %(id)s
"""

SIZES = "select save_seq, size from statestore_snapshot where task_id = %(task)s order by save_seq"

# -- claim and enter --------------------------------------------------------------------------------------------------

_RAISE_FENCE = "fence = {greatest}(fence + 1, {micros})"

_AT = "id = %(task)s and fence = %(fence)s and save_seq = %(save_seq)s"

_ROOM = """
attempts < max_attempts and (max_calls is null or reserved_calls + %(calls)s <= max_calls)
"""

_ENTERED = """
status = 'running', attempts = attempts + 1, reserved_calls = reserved_calls + %(calls)s, entered_at = {now}
"""

_CLAIMED = f"""
{_RAISE_FENCE}, claims = claims + 1, worker = %(worker)s, wake_at = {{after[lease]}}, resume_at = null,
notified_until = null, mismatch_since = null
"""

_CLAIMABLE = f"""
{_AT} and wake_at <= {{now}} and deadline > {{now}} and cancel_requested is null and reason = ''
    and (resume_at is null or resume_at <= {{now}})
"""

CLAIM = f"""
update statestore_task set {_CLAIMED} where {_CLAIMABLE} returning fence, attempts, {{now}}
"""

CLAIM_AND_ENTER = f"""
update statestore_task set {_CLAIMED}, {_ENTERED} where {_CLAIMABLE} and {_ROOM} returning fence, attempts, {{now}}
"""

ENTER = f"""
update statestore_task set {_ENTERED}
where {_AT} and {_ROOM} and cancel_requested is null and deadline > {{now}}
returning fence, attempts, {{now}}
"""

# -- commit -----------------------------------------------------------------------------------------------------------

_OVER = "(cancel_requested is not null or deadline <= {read})"

_SHORT_OF_ATTEMPTS = "(attempts >= max_attempts + %(more_attempts)s)"

_SHORT_OF_CALLS = "(max_calls is not null and reserved_calls - %(refund)s + %(calls)s > max_calls)"

_STAYS = f"not ({_OVER} or {_SHORT_OF_ATTEMPTS} or {_SHORT_OF_CALLS})"

_SAVED = """
save_seq = save_seq + 1, claims = 0, step_index = %(next_index)s, turn = %(next_turn)s, last_error = '',
max_attempts = max_attempts + %(more_attempts)s, resume_at = null,
progress = coalesce(cast(%(progress)s as double precision), progress),
progress_text = coalesce(cast(%(progress_text)s as text), progress_text)
"""

# A lease with more than two thirds left is not moved: the column is indexed, and moving it is what costs.
_COMMIT_AND_ENTER = f"""
update statestore_task set {_SAVED},
    status = case when {_OVER} then 'cancelled' when {_STAYS} then 'running' else 'ready' end,
    reason = case
        when {_OVER} then coalesce(cancel_requested, 'deadline_passed')
        when {_SHORT_OF_ATTEMPTS} then 'attempts_exhausted'
        when {_SHORT_OF_CALLS} then 'budget_exhausted'
        else ''
    end,
    attempts = attempts + case when {_STAYS} then 1 else 0 end,
    reserved_calls = reserved_calls - %(refund)s + case when {_STAYS} then %(calls)s else 0 end,
    entered_at = case when {_STAYS} then {{read}} end,
    fence = case when {_STAYS} then fence else {{greatest}}(fence + 1, {{micros}}) end,
    worker = case when {_STAYS} then worker else '' end,
    wake_at = case
        when not {_STAYS} then null
        when wake_at < {{after_read[two_thirds]}} then {{after_read[lease]}}
        else wake_at
    end,
    finished_at = case when {_OVER} then {{read}} end
"""

_COMMIT_AND_STOP = f"""
update statestore_task set {_SAVED}, {_RAISE_FENCE}, worker = '', entered_at = null,
    status = case when {_OVER} then 'cancelled' else 'ready' end,
    reason = case when {_OVER} then coalesce(cancel_requested, 'deadline_passed') else '' end,
    reserved_calls = reserved_calls - %(refund)s,
    wake_at = case when {_OVER} then null else {{read}} end,
    notified_until = {{after_read[notify]}},
    finished_at = case when {_OVER} then {{read}} end
"""

_COMMIT_AND_END = f"""
update statestore_task set {_SAVED}, {_RAISE_FENCE}, worker = '', entered_at = null, status = %(status)s,
    reason = %(reason)s, reserved_calls = reserved_calls - %(refund)s, wake_at = null, notified_until = null,
    finished_at = {{read}}
"""

_DECIDED = f"""
{{from_clock}} where {_AT} and status = 'running'
returning id, status, reason, fence, attempts, cancel_requested, {{read}} as read
"""

UPDATES = {
    "enter": _COMMIT_AND_ENTER + _DECIDED,
    "stop": _COMMIT_AND_STOP + _DECIDED,
    "completed": _COMMIT_AND_END + _DECIDED,
    "failed": _COMMIT_AND_END + _DECIDED,
}

SNAPSHOT = f"""
insert into statestore_snapshot ({_SNAPSHOT_COLUMNS})
select %(task)s, %(slot)s, %(next_seq)s, %(next_index)s, %(step)s, %(turn)s, %(spent)s, %(outcome)s, %(state)s,
    %(size)s, %(saved_by)s, %(milliseconds)s, {{now}}
{{from_update}}
on conflict (task_id, slot) do update set
    save_seq = excluded.save_seq, step_index = excluded.step_index, step = excluded.step, turn = excluded.turn,
    attempts = excluded.attempts, outcome = excluded.outcome, state = excluded.state, size = excluded.size,
    worker = excluded.worker, milliseconds = excluded.milliseconds, saved_at = excluded.saved_at
"""

FORGET = "delete from statestore_snapshot where task_id = %(task)s and save_seq <= %(forget_through)s"


def chained(update: str, *, forget: bool) -> str:
    """Return a whole commit as one statement: nothing else is written unless the update finds its row."""
    forgotten = f", forgotten as ({FORGET} and exists (select 1 from changed))" if forget else ""
    return f"""
    with changed as ({update}), saved as ({SNAPSHOT}){forgotten}
    select id, status, reason, fence, attempts, cancel_requested, read from changed
    """


CHAINED = {(ending, forget): chained(UPDATES[ending], forget=forget) for ending in UPDATES for forget in (False, True)}

# -- failure and release ----------------------------------------------------------------------------------------------

_ENDS = "(%(cancelled)s or cancel_requested is not null)"

FAIL = f"""
update statestore_task set {_RAISE_FENCE}, worker = '', entered_at = null, last_error = %(error)s,
    claims = case when %(keep_claims)s then claims else 0 end,
    status = case when {_ENDS} then 'cancelled' else status end,
    reason = case when {_ENDS} then coalesce(cancel_requested || %(open_step)s, %(reason)s) else '' end,
    resume_at = case when {_ENDS} then null else {{after_read[backoff]}} end,
    wake_at = case when {_ENDS} then null else {{least}}({{after_read[backoff]}}, deadline) end,
    notified_until = {{after_read[notify]}},
    finished_at = case when {_ENDS} then {{read}} end,
    progress = coalesce(cast(%(progress)s as double precision), progress),
    progress_text = coalesce(cast(%(progress_text)s as text), progress_text)
{{from_clock}} where {_AT}
returning status
"""

_RELEASED = f"{_RAISE_FENCE}, worker = '', entered_at = null, resume_at = null, notified_until = null"

_UNHELD = f"{_AT} and status in ('ready', 'running') and (worker = '' or wake_at is null or wake_at <= {{now}})"

CANCEL = f"""
update statestore_task set {_RELEASED}, status = 'cancelled', reason = %(reason)s, claims = 0, wake_at = null,
    finished_at = {{now}}
where {_UNHELD} and (cancel_requested is not null or deadline <= {{now}})
returning 1
"""

# Whoever parks has just read the row as due, or holds its lease; the fence tells that neither has changed.
PARK = f"""
update statestore_task set {_RELEASED}, reason = %(reason)s, wake_at = null,
    status = case when %(ready)s then 'ready' else status end
where {_AT} and status in ('ready', 'running') and cancel_requested is null
returning 1
"""

LET_GO = f"""
update statestore_task set {_RELEASED}, last_error = %(note)s,
    mismatch_since = coalesce(mismatch_since, {{now}}),
    reason = case when mismatch_since <= {{before_clock[grace]}} then %(reason)s else reason end,
    wake_at = case when mismatch_since <= {{before_clock[grace]}} then null else {{after[pause]}} end
where {_UNHELD} and wake_at <= {{now}}
returning 1
"""

# A lease that the contract took on a task of the engine has lapsed: the task is as due, or as parked, as it was.
RESTORE = f"""
update statestore_task set {_RAISE_FENCE}, worker = '',
    wake_at = case when reason <> '' then null else {{least}}(resume_at, deadline) end
where {_UNHELD} and wake_at <= {{now}} and cancel_requested is null and (reason <> '' or resume_at > {{now}})
returning 1
"""

RENEW = """
update statestore_task set wake_at = {after[lease]},
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
update statestore_task t set wake_at = clock_timestamp() + a.lease * interval '1 millisecond',
    progress = coalesce(a.progress, t.progress), progress_text = coalesce(a.progress_text, t.progress_text)
from asked a, free where free.id = t.id and a.id = t.id and a.fence = t.fence
returning t.id, t.cancel_requested
"""

STILL_HELD = """
select t.id from statestore_task t
join unnest(%(tasks)s::bigint[], %(fences)s::bigint[]) as a(id, fence) on a.id = t.id and a.fence = t.fence
"""
