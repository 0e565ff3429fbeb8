"""The backend itself: the facets it is put together from, and their memory."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.checks import CheckMessage

from ..base import BaseBackend
from .checks import check_memory
from .clock import after
from .dedup import DedupOperations
from .durable import DurableOperations
from .handoff import HandoffOperations
from .history import HistoryOperations
from .journal import JournalOperations
from .kv import KVOperations
from .listing import ListingOperations
from .lists import ListOperations
from .lock import LockOperations
from .memory import Memory
from .primitives import alone
from .queue import QueueOperations
from .requests import RequestOperations
from .spool import SpoolOperations
from .sweeping import SweepOperations
from .tasks import TaskOperations
from .unheld import UnheldOperations


class MemoryBackend(
    ListingOperations,
    KVOperations,
    ListOperations,
    LockOperations,
    DedupOperations,
    QueueOperations,
    HandoffOperations,
    SpoolOperations,
    DurableOperations,
    TaskOperations,
    UnheldOperations,
    RequestOperations,
    JournalOperations,
    HistoryOperations,
    SweepOperations,
    BaseBackend,
):
    """Keep state in the memory of this process: for tests and notebooks.

    Each backend object has a memory of its own, so two aliases are two stores; a change of ``STATESTORES``, as tests
    make it, begins with empty ones. Threads and event loops of the process may share a store. Values are serialised as
    by the other backends, so nobody ever gets what another one stored, only an equal one.

    Memory takes part in no transaction: nothing is rolled back, and nothing is refused inside one. Only a ``start`` or
    a request to a durable task waits for the commit of an open block; a crash between the two loses it.

    A process that forks gives its child a copy, whole as of that moment; from then on the two know nothing of each
    other. So a Celery worker of another process never sees these tasks: drive them with ``run()``, with
    ``CELERY_TASK_ALWAYS_EAGER``, or by ``services.work`` in a thread.

    What has expired is cleared away by later writes, a little by each: there is no thread for it, and no need to purge.
    """

    def __init__(self, *, alias: str = "", namespace: str | Sequence[str] = ()) -> None:
        super().__init__(alias=alias, namespace=namespace)
        self.memory = Memory()

    def age(self, namespace: str, milliseconds: int) -> None:
        memory, by = self.memory, after(0, milliseconds)

        def work(now: int) -> None:
            for shelf in (memory.kv, memory.handoff, memory.locks, memory.dedup, memory.lists, memory.queues):
                shelf.age(namespace, by)
            memory.blobs.age(namespace, by)
            memory.tasks.age(namespace, by)

        alone(memory, work, tidies=False)

    def check(self) -> list[CheckMessage]:
        return check_memory(self.alias)
