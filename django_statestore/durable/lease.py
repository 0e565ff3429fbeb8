"""The lease that a worker holds on a task while it runs its steps."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ..contracts.position import Position
from ..contracts.reader import SpoolReader
from ..contracts.source import Data
from ..contracts.taskrecord import TaskRecord
from ..contracts.tasks import Renewal, TaskPrimitives
from ..flow import Flow
from ..renewer import Renewable, renewer
from .text import clean

if TYPE_CHECKING:
    from ..store import Store


def new_worker() -> str:
    """Return a name for this drive of a task: who and where, and unlike that of any other drive."""
    return clean(f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}", 200)


class TaskLease(Renewable):
    """Hold the fence, be renewed, and carry progress on and the cancel flag back."""

    def __init__(self, backend: TaskPrimitives, record: TaskRecord, milliseconds: int, started: float) -> None:
        super().__init__(milliseconds / 1000, started)
        self._backend = backend
        self._milliseconds = milliseconds
        self.task = record.id
        self.fence = record.fence
        self.save_seq = record.save_seq
        self.cancelled = False
        assert record.deadline is not None  # a task of the engine always has one
        # Late by the way of the answer rather than early: the store's clock is the one that counts.
        self.deadline = time.monotonic() + (record.deadline - record.now).total_seconds()
        self._saving_at = started
        self._progress: tuple[float, str] | None = None

    @property
    def position(self) -> Position:
        return Position(self.task, self.fence, self.save_seq)

    def hold(self) -> Flow[None]:
        """Have the lease renewed from now on, where that is possible."""
        if (yield from self._backend.can_renew()):
            renewer.add(self)

    def let_go(self) -> None:
        renewer.remove(self)

    def saving(self) -> None:
        """Note that a commit is about to be sent."""
        self._saving_at = time.monotonic()

    def saved(self, save_seq: int, fence: int, cancel_requested: str | None) -> None:
        """Note that a commit went through: the lease is still ours, and two thirds of it are left at the least."""
        self.save_seq, self.fence, self.cancelled = save_seq, fence, cancel_requested is not None
        self.renewed_at = max(self.renewed_at, self._saving_at - self.seconds / 3)

    def report(self, fraction: float, text: str) -> None:
        self._progress = (fraction, clean(text, 200))

    @property
    def progress(self) -> tuple[float | None, str | None]:
        """Return the progress last reported, to be written by whatever is written next."""
        return self._progress or (None, None)

    def spool(self, store: Store, task_id: str, data: Data, name: str) -> SpoolReader:
        return store.spool.write_for_task(self.task, task_id, data, name)

    @property
    def group(self) -> tuple[int, str]:
        return (id(self._backend), "task")

    def renew_all(self, leases: Sequence[Renewable]) -> list[bool]:
        held = [cast(TaskLease, lease) for lease in leases]
        renewals = [Renewal(lease.task, lease.fence, lease._milliseconds, *lease.progress) for lease in held]
        answers = self._backend.task_renew(renewals).run()
        for lease, answer in zip(held, answers, strict=True):
            lease.cancelled = lease.cancelled or answer.cancel_requested is not None
        return [answer.held for answer in answers]

    def close(self) -> None:
        self._backend.release_thread()
