"""The statements that store a request to a durable task, and apply it to the task's row."""

from __future__ import annotations

from .task_sql import FREE, OPEN, RAISE_FENCE, WAKE_FROM_WAIT

_MAILBOX_COLUMNS = "task_id, kind, name, key, payload, sender, sent_at, seq, dropped"

_LIVE = f"digest = %(id)s and {OPEN} and driven"

FIND = f"select id from statestore_task where {_LIVE}"

# Where another transaction is storing the same key this waits for its end, and holds no task's row meanwhile.
STORE = f"""
insert into statestore_mailbox ({_MAILBOX_COLUMNS})
select id, %(kind)s, %(name)s, %(key)s, %(payload)s, %(sender)s, {{now}}, null, %(dropped)s
from statestore_task where {_LIVE}
on conflict (task_id, key) do nothing
returning id, task_id
"""

TAKE_BACK = "delete from statestore_mailbox where id = %(mail)s"

# The row is locked by an update that changes nothing: it is what every database knows.
LOCK = "update statestore_task set signal_seq = signal_seq where digest = %(id)s returning id"

PENDING = """
select id, kind, name, payload, sender from statestore_mailbox
where task_id = %(task)s and seq is null and not dropped order by id
"""

APPLIED = "update statestore_mailbox set seq = %(seq)s where id = %(mail)s"

DROPPED = "update statestore_mailbox set dropped = %(dropped)s where id = %(mail)s"

# -- what a request does to the row -----------------------------------------------------------------------------------

_AWAITED = f"(waiting_for = %(name)s and reason = '' and {FREE})"

_SIGNAL = f"""
update statestore_task set signal_seq = signal_seq + 1,
    wake_at = case when {_AWAITED} then {{now}} else wake_at end,
    notified_until = case when {_AWAITED} then {{after[notify]}} else notified_until end
"""

SIGNAL = f"""
{_SIGNAL} where id = %(task)s and {OPEN} and driven returning signal_seq, save_seq, journal_seq, {_AWAITED}
"""

SIGNAL_CHAINED = f"""
with changed as ({_SIGNAL} where {_LIVE} returning id, signal_seq, {_AWAITED} as woken),
stored as (
    insert into statestore_mailbox ({_MAILBOX_COLUMNS})
    select id, %(kind)s, %(name)s, null, %(payload)s, %(sender)s, {{now}}, signal_seq, %(dropped)s from changed
)
select id, woken from changed
"""

# A task that nobody holds becomes due, so that whoever looks ends it.
CANCEL = f"""
update statestore_task set signal_seq = signal_seq + 1, journal_seq = journal_seq + 1,
    cancel_requested = coalesce(cancel_requested, %(name)s),
    wake_at = case when {FREE} then {{now}} else wake_at end,
    notified_until = case when {FREE} then {{after[notify]}} else notified_until end
where id = %(task)s and {OPEN} and driven
returning signal_seq, save_seq, journal_seq, {FREE}
"""

# A grant is nothing that a waiting task must look at: who had seen all that was asked has still seen all.
GRANT = f"""
update statestore_task set signal_seq = signal_seq + 1, journal_seq = journal_seq + 1,
    signals_seen = case when signals_seen = signal_seq then signal_seq + 1 else signals_seen end,
    max_attempts = max_attempts + %(attempts)s, max_calls = max_calls + %(model_calls)s,
    deadline = {{greatest}}(deadline, coalesce({{after[deadline]}}, deadline))
where id = %(task)s and {OPEN} and driven
returning signal_seq, save_seq, journal_seq, reason <> ''
"""

_GRANTED = f"update statestore_task set {RAISE_FENCE}, worker = '', claims = 0"

# These two follow a grant in its transaction, which holds the row's lock; a living lease is left alone.
AFTER_GRANT = f"""
{_GRANTED},
    wake_at = case when cancel_requested is not null then wake_at else {WAKE_FROM_WAIT} end,
    notified_until = case
        when cancel_requested is null and (waiting_for <> '' or resume_at is not null) then null else notified_until
    end
where id = %(task)s and {FREE}
returning 1
"""

_WAITS = "(cancel_requested is null and waiting_for <> '')"

REVIVE = f"""
{_GRANTED}, reason = '', mismatch_since = null,
    wake_at = case when {_WAITS} then {WAKE_FROM_WAIT} else {{now}} end,
    notified_until = case when {_WAITS} and signal_seq = signals_seen then null else {{after[notify]}} end
where id = %(task)s and {FREE}
returning wake_at <= {{now}}
"""
