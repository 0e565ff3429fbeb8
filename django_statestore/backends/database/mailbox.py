"""The mailbox of a durable task: what was asked of it, and how that is found."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from ...contracts.mailbox import DueTask, Letter, Mail
from ...contracts.tasks import TaskPrimitives
from ...models.fields import instant
from .connection import Row
from .primitives import DatabasePrimitives, reads
from .tasks import moment

_UNUSED = "kind = 'signal' and name = %(name)s and seq is not null and used_at is null"

_COLUMNS = "id, name, payload, sender, sent_at"

_MAIL = f"""
select {_COLUMNS} from statestore_mailbox where task_id = %(task)s and {_UNUSED} order by seq limit 1
"""

_ONE = f"select {_COLUMNS} from statestore_mailbox where id = %(mail)s and kind = 'signal'"

# One statement, one moment: a signal and its ``signal_seq`` are seen both or neither.
_LOOK = f"""
select signal_seq, exists (select 1 from statestore_mailbox where task_id = %(task)s and {_UNUSED})
from statestore_task where id = %(task)s
"""

_LETTERS = """
select kind, name, sender, sent_at, seq, used_at, dropped from statestore_mailbox where task_id = %(task)s order by id
"""

# The sums keep a planner from the index of the task ids: it would look at all that was ever asked.
_UNAPPLIED = """
select id, namespace, key, fingerprint from statestore_task where id in (
    select distinct task_id + 0 from statestore_mailbox
    where seq is null and dropped = false and sent_at <= {before_clock[age]} and task_id + 0 > %(after)s
    order by 1 limit %(limit)s
)
"""


class MailboxStatements(DatabasePrimitives, TaskPrimitives):
    """Fill in the looks into a mailbox, and how a request stands to the caller's transaction."""

    @reads
    def task_mail(self, task: int, name: str) -> Mail | None:
        return _mail(self.row(_MAIL, {"task": task, "name": name}))

    @reads
    def task_letter(self, mail: int) -> Mail | None:
        return _mail(self.row(_ONE, {"mail": mail}))

    @reads
    def task_look(self, task: int, name: str) -> tuple[int, bool]:
        row = self.row(_LOOK, {"task": task, "name": name})
        return (int(row[0]), bool(row[1])) if row else (0, False)

    @reads
    def task_letters(self, task: int) -> list[Letter]:
        return [
            Letter(kind, name, sender, moment(sent_at), seq, instant(used_at), bool(dropped))
            for kind, name, sender, sent_at, seq, used_at, dropped in self.rows(_LETTERS, {"task": task})
        ]

    @reads
    def tasks_with_requests(self, age: int, limit: int, after: int = 0) -> list[DueTask]:
        rows = self.rows(_UNAPPLIED, {"age": age, "limit": limit, "after": after})
        return [DueTask(*row) for row in sorted(rows)]

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


def _mail(row: Row | None) -> Mail | None:
    return Mail(int(row[0]), row[1], row[2], row[3], moment(row[4])) if row else None
