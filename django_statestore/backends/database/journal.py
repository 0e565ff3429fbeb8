"""The journal of a durable task: lines that are only ever added, numbered under the lock of the task's row."""

from __future__ import annotations

from ...contracts.journal import CallLine, JournalLine
from ...contracts.position import Position
from ...contracts.tasks import TaskPrimitives
from .primitives import DatabasePrimitives, commits, reads
from .task_sql import AT, JOURNAL_COLUMNS
from .tasks import moment, parameters_at

# An update, not a look: it waits for whoever is taking over, and then finds that the fence was raised.
_NUMBER = f"""
update statestore_task set journal_seq = journal_seq + 1 where {AT} returning id, journal_seq
"""

_CALL = f"""
insert into statestore_journal ({JOURNAL_COLUMNS})
select id, journal_seq, 'call', %(name)s, %(occurrence)s, %(arguments)s, %(save_seq)s, %(value)s, '', {{now}}
"""

_CALL_CHAINED = f"with changed as ({_NUMBER}) {_CALL} from changed returning 1"

_CALL_ALONE = f"{_CALL} from statestore_task where id = %(task)s"

_REPAIR = f"""
insert into statestore_journal ({JOURNAL_COLUMNS})
values (%(task)s, %(number)s, 'repair', %(name)s, 0, null, %(save_seq)s, %(value)s, %(sender)s, {{now}})
"""

_CALLS = """
select name, occurrence, arguments, value from statestore_journal
where task_id = %(task)s and save_seq = %(save_seq)s and kind = 'call' order by number
"""

_ITEMS = """
select value from statestore_journal where task_id = %(task)s and kind = 'item' and name = %(name)s order by number
"""

_LINES = """
select number, kind, name, occurrence, save_seq, value, sender, created_at from statestore_journal
where task_id = %(task)s and number > %(after)s order by number limit %(limit)s
"""


class JournalStatements(DatabasePrimitives, TaskPrimitives):
    """Fill in the journal."""

    @commits
    def task_journal(self, at: Position, line: CallLine) -> bool:
        parameters = parameters_at(at) | {
            "name": line.name,
            "occurrence": line.occurrence,
            "arguments": line.arguments,
            "value": line.value,
        }
        if self.database.dialect.chains:
            return self.touched(_CALL_CHAINED, parameters)
        with self.database.transaction():
            held = self.touched(_NUMBER, parameters)
            if held:
                self.rows(_CALL_ALONE, parameters)
        return held

    @reads
    def task_calls(self, task: int, save_seq: int) -> list[CallLine]:
        rows = self.rows(_CALLS, {"task": task, "save_seq": save_seq})
        return [CallLine(name, int(occurrence), bytes(arguments), value) for name, occurrence, arguments, value in rows]

    @reads
    def task_items(self, task: int, name: str) -> list[str]:
        return [value for (value,) in self.rows(_ITEMS, {"task": task, "name": name})]

    @reads
    def task_lines(self, task: int, after: int, limit: int) -> list[JournalLine]:
        rows = self.rows(_LINES, {"task": task, "after": after, "limit": limit})
        return [JournalLine(*(*row[:-1], moment(row[-1]))) for row in rows]

    def record_repair(self, task: int, number: int, save_seq: int, name: str, value: str, sender: str) -> None:
        """Add the line of a repair whose number was dealt. Call it within a transaction."""
        line = {"task": task, "number": number, "save_seq": save_seq, "name": name, "value": value, "sender": sender}
        self.rows(_REPAIR, line)
