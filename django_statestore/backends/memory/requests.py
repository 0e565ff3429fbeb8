"""Requests to a task in memory, and how a write stands to the caller's transaction.

Memory takes part in no transaction: what was written stays, whatever is rolled back. So inside an open block, of
whatever database, a start or a request waits for the block's commit; a crash between the two loses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from ...codec import dumps
from ...contracts.mailbox import DueTask, Letter, Mail, Reply, Request
from ...contracts.tasks import TaskPrimitives
from ...flow import Action, Call
from ...keys import Entry
from .clock import after, maybe_after
from .primitives import Immediate, MemoryPrimitives, reads, writes
from .taskrows import TaskRow


class RequestOperations(MemoryPrimitives, TaskPrimitives):
    """Fill in requests. None is ever only stored: it waits for a commit as a whole, or is applied."""

    def task_deferred(self, write: Callable[[], None]) -> Action[bool]:
        # Not on the spot: in an event loop it is another thread that may have a block open.
        return Call(_deferred, write)

    def task_hints(self) -> Action[bool]:
        return Immediate(lambda: True)

    def task_after_commit(self, call: Callable[[], None]) -> Action[None]:
        return Call(call)  # what was written is there; the call may wait for a broker

    @writes
    def task_request(self, now: int, entry: Entry, request: Request) -> Reply:
        task = self.memory.tasks.of(entry)
        if task is None or not task.open or not task.driven:
            return Reply("refused")
        if request.key is not None and any(mail.key == request.key for mail in task.mailbox):
            return Reply("known", task.id)
        self.memory.tasks.post(task, request, now)
        woken = _APPLY[request.kind](task, now, request)
        self.memory.tasks.put(task)
        return Reply("applied", task.id, woken)

    @reads
    def task_apply_requests(self, now: int, entry: Entry, notify: int | None) -> Reply:
        task = self.memory.tasks.of(entry)
        return Reply("refused") if task is None else Reply("applied", task.id)

    @reads
    def task_mail(self, now: int, task: int, name: str) -> Mail | None:
        row = self.memory.tasks.get(task)
        found = None if row is None else row.oldest(name)
        return None if found is None else found.mail

    @reads
    def task_letter(self, now: int, mail: int) -> Mail | None:
        found = self.memory.tasks.mail(mail)
        return found.mail if found is not None and found.kind == "signal" else None

    @reads
    def task_look(self, now: int, task: int, name: str) -> tuple[int, bool]:
        row = self.memory.tasks.get(task)
        return (0, False) if row is None else (row.signal_seq, row.oldest(name) is not None)

    @reads
    def task_letters(self, now: int, task: int) -> list[Letter]:
        row = self.memory.tasks.get(task)
        return [] if row is None else [mail.shown for mail in row.mailbox]

    def tasks_with_requests(self, age: int, limit: int, after: int = 0) -> Action[list[DueTask]]:
        return Immediate(list)


def _signal(task: TaskRow, now: int, request: Request) -> bool:
    if task.waiting_for != request.name or task.held(now) or task.reason:
        return False
    return _wake(task, now, request)


def _cancel(task: TaskRow, now: int, request: Request) -> bool:
    """Ask for the end: a task that nobody holds becomes due, so that whoever looks ends it."""
    reason = str.__str__(request.name)
    if task.cancel_requested is None:
        task.cancel_requested = reason
    task.note(now, "repair", "cancel", dumps(reason), sender=str.__str__(request.sender))
    return False if task.held(now) else _wake(task, now, request)


def _grant(task: TaskRow, now: int, request: Request) -> bool:
    limits = request.limits
    if task.signals_seen == task.signal_seq - 1:  # a grant is nothing that a waiting task must look at
        task.signals_seen = task.signal_seq
    task.max_attempts += limits.attempts
    if task.max_calls is not None:
        task.max_calls += limits.model_calls
    if limits.deadline is not None and task.deadline is not None:
        task.deadline = max(task.deadline, after(now, limits.deadline))
    task.note(now, "repair", "grant", dumps(asdict(limits)), sender=str.__str__(request.sender))
    if task.held(now):
        return False
    was_parked, task.reason = bool(task.reason), ""
    task.raise_fence(now)
    task.worker, task.claims = "", 0
    if was_parked:
        task.mismatch_since = None
        if not task.waiting_for or task.cancel_requested is not None or task.signals_seen != task.signal_seq:
            return _wake(task, now, request)
    if task.cancel_requested is None and (task.waiting_for or task.resume_at is not None):
        task.wake_at, task.notified_until = task.rests_until(now), None
    return was_parked and task.due(now)


def _wake(task: TaskRow, now: int, request: Request) -> bool:
    task.wake_at, task.notified_until = now, maybe_after(now, request.notify)
    return True


_APPLY: dict[str, Callable[[TaskRow, int, Request], bool]] = {"signal": _signal, "cancel": _cancel, "grant": _grant}


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
