"""The statements that commit a step of a durable task: the heart of the engine.

What a commit decides is written as CASE over the row, by one reading of the clock.
"""

from __future__ import annotations

from .task_sql import AT, END_WAIT, JOURNAL_COLUMNS, RAISE_FENCE, SNAPSHOT_COLUMNS

_OVER = "(cancel_requested is not null or deadline <= {read})"

_SHORT_OF_ATTEMPTS = "(attempts >= max_attempts + %(more_attempts)s)"

_SHORT_OF_CALLS = "(max_calls is not null and reserved_calls - %(refund)s + %(calls)s > max_calls)"

_STAYS = f"not ({_OVER} or {_SHORT_OF_ATTEMPTS} or {_SHORT_OF_CALLS})"

_SAVED = """
save_seq = save_seq + 1, claims = 0, step_index = %(next_index)s, turn = %(next_turn)s, last_error = '',
max_attempts = max_attempts + %(more_attempts)s, received = null, journal_seq = journal_seq + %(item_count)s,
progress = coalesce(cast(%(progress)s as double precision), progress),
progress_text = coalesce(cast(%(progress_text)s as text), progress_text)
"""

# A lease with more than two thirds left is not moved: the column is indexed, and moving it is what costs.
_COMMIT_AND_ENTER = f"""
update statestore_task set {_SAVED}, resume_at = null,
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
    notified_until = null,
    finished_at = case when {_OVER} then {{read}} end
"""

_LET_GO = f"{RAISE_FENCE}, worker = '', entered_at = null, reserved_calls = reserved_calls - %(refund)s"

_COMMIT_AND_STOP = f"""
update statestore_task set {_SAVED}, {_LET_GO}, resume_at = null,
    status = case when {_OVER} then 'cancelled' else 'ready' end,
    reason = case when {_OVER} then coalesce(cancel_requested, 'deadline_passed') else '' end,
    wake_at = case when {_OVER} then null else {{read}} end,
    notified_until = {{after_read[notify]}},
    finished_at = case when {_OVER} then {{read}} end
"""

# Something was asked of the task after its worker had looked in the mailbox: it is due at once, to look again.
_COMMIT_AND_WAIT = f"""
update statestore_task set {_SAVED}, {_LET_GO},
    status = case when not {_OVER} then 'ready' when %(last)s then 'completed' else 'cancelled' end,
    reason = case when {_OVER} and not %(last)s then coalesce(cancel_requested, 'deadline_passed') else '' end,
    waiting_for = case when {_OVER} then '' else cast(%(wait_name)s as text) end,
    wait_spec = case when {_OVER} then '' else cast(%(wait_spec)s as text) end,
    signals_seen = %(seen)s,
    resume_at = case when {_OVER} then null else {{after_read[delay]}} end,
    wake_at = case
        when {_OVER} then null
        when cast(%(wait_name)s as text) <> '' and signal_seq <> %(seen)s then {{read}}
        else {{least}}(coalesce({{after_read[delay]}}, deadline), deadline)
    end,
    notified_until = {{after_read[notify]}},
    finished_at = case when {_OVER} then {{read}} end
"""

_COMMIT_AND_END = f"""
update statestore_task set {_SAVED}, {_LET_GO}, resume_at = null, {END_WAIT}, status = %(status)s,
    reason = %(reason)s, wake_at = null, notified_until = null, finished_at = {{read}}
"""

_DECIDED = f"""
{{from_clock}} where {AT} and status = 'running'
returning id, status, reason, fence, attempts, cancel_requested, {{read}} as read, journal_seq
"""

UPDATES = {
    "enter": _COMMIT_AND_ENTER + _DECIDED,
    "stop": _COMMIT_AND_STOP + _DECIDED,
    "wait": _COMMIT_AND_WAIT + _DECIDED,
    "completed": _COMMIT_AND_END + _DECIDED,
    "failed": _COMMIT_AND_END + _DECIDED,
}

SNAPSHOT = f"""
insert into statestore_snapshot ({SNAPSHOT_COLUMNS})
select %(task)s, %(slot)s, %(next_seq)s, %(next_index)s, %(step)s, %(turn)s, %(spent)s, %(outcome)s, %(state)s,
    %(size)s, %(saved_by)s, %(milliseconds)s, {{now}}
{{from_update}}
on conflict (task_id, slot) do update set
    save_seq = excluded.save_seq, step_index = excluded.step_index, step = excluded.step, turn = excluded.turn,
    attempts = excluded.attempts, outcome = excluded.outcome, state = excluded.state, size = excluded.size,
    worker = excluded.worker, milliseconds = excluded.milliseconds, saved_at = excluded.saved_at
"""

SNAPSHOT_ALONE = SNAPSHOT.replace("{from_update}", "where true")
"""For a statement that stands beside its update also where the two could be one."""

FORGET = "delete from statestore_snapshot where task_id = %(task)s and save_seq <= %(forget_through)s"

ITEM = f"""
insert into statestore_journal ({JOURNAL_COLUMNS})
values (%(task)s, %(number)s, 'item', %(name)s, 0, null, %(next_seq)s, %(value)s, '', {{now}})
"""

_ITEMS = f"""
insert into statestore_journal ({JOURNAL_COLUMNS})
select changed.id, changed.journal_seq - %(item_count)s + i.nth, 'item', i.name, 0, null, %(next_seq)s, i.value, '',
    {{now}}
from changed, unnest(%(item_names)s::text[], %(item_values)s::text[]) with ordinality as i(name, value, nth)
"""


def _chained(update: str, *, forget: bool, items: bool) -> str:
    """Return a whole commit as one statement: nothing else is written unless the update finds its row."""
    forgotten = f", forgotten as ({FORGET} and exists (select 1 from changed))" if forget else ""
    appended = f", appended as ({_ITEMS})" if items else ""
    return f"""
    with changed as ({update}), saved as ({SNAPSHOT}){forgotten}{appended}
    select id, status, reason, fence, attempts, cancel_requested, read, journal_seq from changed
    """


CHAINED = {
    (ending, forget, items): _chained(UPDATES[ending], forget=forget, items=items)
    for ending in UPDATES
    for forget in (False, True)
    for items in (False, True)
}
