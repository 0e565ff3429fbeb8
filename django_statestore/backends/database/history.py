"""The kept saves of a durable task, and the task that goes on where another stood."""

from __future__ import annotations

from ...contracts.history import Fork, SavedStep
from ...contracts.taskrecord import RING, NewTask
from ...contracts.tasks import OpenTask
from ...exceptions import TaskNotFound
from .primitives import reads, writes
from .spool_purge import SpoolPurgeStatements
from .task_sql import JOURNAL_COLUMNS
from .tasks import TaskStatements, moment, new_task

_HISTORY = """
select save_seq, step, step_index, turn, attempts, outcome, size, worker, milliseconds, saved_at
from statestore_snapshot where task_id = %(task)s order by save_seq
"""

_SAVED = "select state from statestore_snapshot where task_id = %(task)s and slot = %(slot)s and save_seq = %(save)s"

_OPEN = """
select t.id, t.namespace, t.key, t.definition, t.revision, t.fingerprint, t.step_index, t.status, t.reason, s.state
from statestore_task t
left join statestore_snapshot s on s.task_id = t.id and s.save_seq = t.save_seq
where t.id > %(after)s and t.driven and t.status in ('ready', 'running') order by t.id limit %(limit)s
"""

_SOURCE = "select 1 from statestore_task where id = %(source)s"

_COPY_ITEMS = f"""
insert into statestore_journal ({JOURNAL_COLUMNS})
select %(task)s, row_number() over (order by number), 'item', name, 0, null, 0, value, sender, created_at
from statestore_journal where task_id = %(source)s and kind = 'item' and save_seq <= %(through)s
returning 1
"""

_COUNT_ITEMS = "update statestore_task set journal_seq = %(count)s where id = %(task)s"


class HistoryStatements(TaskStatements, SpoolPurgeStatements):
    """Fill in history and fork, and the look at all open tasks."""

    @reads
    def task_history(self, task: int) -> list[SavedStep]:
        return [SavedStep(*(*row[:-1], moment(row[-1]))) for row in self.rows(_HISTORY, {"task": task})]

    @reads
    def task_saved(self, task: int, save: int) -> str | None:
        row = self.row(_SAVED, {"task": task, "slot": save % RING, "save": save})
        return row[0] if row else None

    @reads
    def tasks_open(self, after: int, limit: int) -> list[OpenTask]:
        return [OpenTask(*row) for row in self.rows(_OPEN, {"after": after, "limit": limit})]

    @writes
    def task_fork(self, new: NewTask, fork: Fork) -> bool:
        # The purge of the source waits until its items and uses are copied; its worker does not.
        keep = f"{_SOURCE} for key share" if self.database.dialect.chains else _SOURCE
        with self.database.transaction():
            if not self.touched(keep, {"source": fork.source}):
                raise TaskNotFound("the task to be forked is gone")
            parameters = new_task(new, step_index=fork.next_index, forked_from=fork.source, outcome="forked")
            task = self.insert_task(parameters)
            if task is None:
                return False
            if fork.through is not None:
                copying = {"task": task, "source": fork.source, "through": fork.through}
                count = len(self.rows(_COPY_ITEMS, copying))
                if count:
                    self.rows(_COUNT_ITEMS, {"task": task, "count": count})
            self.spool_copy_uses(fork.source, task)
        return True
