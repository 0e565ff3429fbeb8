"""Requests to a task in memory, and how a write stands to the caller's transaction.

Memory takes part in no transaction: what was written stays, whatever is rolled back. So inside an open block, of
whatever database, a start or a request waits for the block's commit; a crash between the two loses it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...contracts.tasks import Asked, DueTask, TaskPrimitives
from ...flow import Action, Call
from ...keys import Entry
from .primitives import Immediate, MemoryPrimitives, writes
from .taskrows import Request


class RequestOperations(MemoryPrimitives, TaskPrimitives):
    """Fill in cancel requests. None is ever only stored: it waits for a commit as a whole, or is applied."""

    def task_deferred(self, write: Callable[[], None]) -> Action[bool]:
        # Not on the spot: in an event loop it is another thread that may have a block open.
        return Call(_deferred, write)

    def task_hints(self) -> Action[bool]:
        return Immediate(lambda: True)

    def task_after_commit(self, call: Callable[[], None]) -> Action[None]:
        return Call(call)  # what was written is there; the call may wait for a broker

    @writes
    def task_request_cancel(self, now: int, entry: Entry, reason: str, sender: str) -> Asked:
        task = self.memory.tasks.of(entry)
        if task is None or not task.open:
            return "refused"
        task.signal_seq += 1
        if task.cancel_requested is None:
            task.cancel_requested = reason
        if not task.held(now):  # it becomes due, so that whoever looks ends it
            task.wake_at, task.notified_until = now, None
        task.requests.append(Request("cancel", reason, sender, task.signal_seq, now))
        self.memory.tasks.put(task)
        return "applied"

    def task_apply_requests(self, entry: Entry) -> Action[None]:
        return Immediate(lambda: None)

    def tasks_with_requests(self, age: int, limit: int) -> Action[list[DueTask]]:
        return Immediate(list)


def _deferred(write: Callable[[], None]) -> bool:
    """Leave ``write`` to the commit of a block that this thread has open; not that of a ``TestCase`` itself."""
    from django.conf import settings
    from django.db import connections, transaction

    if not settings.configured:
        return False
    for connection in connections.all(initialized_only=True):
        blocks = connection.atomic_blocks
        if blocks and not getattr(blocks[-1], "_from_testcase", False):
            transaction.on_commit(write, using=connection.alias, robust=True)
            return True
    return False
