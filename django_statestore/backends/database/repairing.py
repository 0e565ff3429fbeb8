"""What an operator does to a durable task that nobody holds: one transaction for the row, its save and its journal."""

from __future__ import annotations

from typing import Any

from ...contracts.history import Repair, RepairSave
from ...contracts.position import Position
from ...contracts.taskrecord import RING
from .commit_sql import SNAPSHOT_ALONE
from .journal import JournalStatements
from .primitives import commits
from .task_sql import END_WAIT, RAISE_FENCE, UNHELD, WAKE_FROM_WAIT
from .tasks import parameters_at

_RESTS = "(cancel_requested is null and status = 'ready' and (waiting_for <> '' or resume_at > {now}))"

_REPAIR = f"""
update statestore_task set {RAISE_FENCE}, worker = '', entered_at = null, reason = '', claims = 0,
    mismatch_since = null, journal_seq = journal_seq + 1,
    status = case when %(ready)s then 'ready' else status end,
    resume_at = case when {_RESTS} then resume_at end,
    wake_at = case when {_RESTS} then {WAKE_FROM_WAIT} else {{now}} end,
    notified_until = case when {_RESTS} then null else {{after[notify]}} end
where {UNHELD} returning journal_seq, save_seq, turn, attempts
"""

_SAVED = """
update statestore_task set save_seq = save_seq + 1, last_error = '', definition = %(definition)s,
    revision = %(revision)s, fingerprint = %(fingerprint)s, step_index = %(next_index)s, status = %(status)s
"""

# These follow the repair in its transaction, which holds the row's lock.
_STAY = f"{_SAVED} where id = %(task)s"

_MOVE = f"""
{_SAVED}, {END_WAIT}, resume_at = null, received = null, turn = 1, wake_at = {{now}}, notified_until = {{after[notify]}}
where id = %(task)s
"""

_END = f"""
{_SAVED}, {END_WAIT}, resume_at = null, received = null, turn = case when %(keeps_turn)s then turn else 1 end,
    wake_at = null, notified_until = null, finished_at = {{now}}
where id = %(task)s
"""


class RepairStatements(JournalStatements):
    """Fill in repairs."""

    @commits
    def task_repair(self, at: Position, repair: Repair) -> bool:
        parameters = parameters_at(at) | {"notify": repair.notify, "ready": repair.action == "mark_not_done"}
        with self.database.transaction():
            row = self.row(_REPAIR, parameters)
            if row is None:
                return False
            number, save_seq, turn, attempts = row
            if (save := repair.save) is not None:
                save_seq += 1
                template = _END if save.status == "completed" else _STAY if save.keeps_turn else _MOVE
                self.rows(template, parameters | _save(save))
                self.rows(SNAPSHOT_ALONE, _snapshot(at.task, save, save_seq, turn, attempts))
            self.record_repair(at.task, number, save_seq, repair.action, repair.note, repair.sender)
        return True


def _save(save: RepairSave) -> dict[str, Any]:
    return {
        "definition": save.definition,
        "revision": save.revision,
        "fingerprint": save.fingerprint,
        "next_index": save.next_index,
        "status": save.status,
        "keeps_turn": save.keeps_turn,
    }


def _snapshot(task: int, save: RepairSave, save_seq: int, turn: int, attempts: int) -> dict[str, Any]:
    return {
        "task": task,
        "slot": save_seq % RING,
        "next_seq": save_seq,
        "next_index": save.next_index,
        "step": save.step,
        "turn": turn,
        "spent": attempts,
        "outcome": save.outcome,
        "state": save.state,
        "size": len(save.state),
        "saved_by": "",
        "milliseconds": None,
    }
