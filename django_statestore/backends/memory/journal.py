"""The journal of a task in memory."""

from __future__ import annotations

from ...contracts.journal import CallLine, JournalLine
from ...contracts.position import Position
from ...contracts.tasks import TaskPrimitives
from .parts import Line
from .primitives import MemoryPrimitives, reads, writes


class JournalOperations(MemoryPrimitives, TaskPrimitives):
    """Fill in the journal. It grows with its task, and goes with it."""

    @writes
    def task_journal(self, now: int, at: Position, line: CallLine) -> bool:
        task = self.memory.tasks.at(at)
        if task is None:
            return False
        name = str.__str__(line.name)
        task.note(now, "call", name, line.value, occurrence=line.occurrence, arguments=line.arguments)
        return True

    @reads
    def task_calls(self, now: int, task: int, save_seq: int) -> list[CallLine]:
        return [line.call for line in self._lines(task) if line.kind == "call" and line.save_seq == save_seq]

    @reads
    def task_items(self, now: int, task: int, name: str) -> list[str]:
        return [line.value for line in self._lines(task) if line.kind == "item" and line.name == name]

    @reads
    def task_lines(self, now: int, task: int, after: int, limit: int) -> list[JournalLine]:
        # Numbers begin with 1 and leave none out: what comes after number n begins at index n.
        return [line.shown for line in self._lines(task)[max(after, 0) :][: max(limit, 0)]]

    def _lines(self, task: int) -> list[Line]:
        row = self.memory.tasks.get(task)
        return [] if row is None else row.journal
