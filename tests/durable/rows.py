"""What a store keeps of its tasks, looked at from behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

from django_statestore import Store
from django_statestore.backends.memory import MemoryBackend
from django_statestore.backends.memory.taskrows import TaskRow
from django_statestore.keys import encode_namespace
from django_statestore.models import Job, JournalItem, MailboxItem, Snapshot, SpoolUse, Task


@dataclass(frozen=True)
class Kept:
    """Be a kept save."""

    save_seq: int
    step: str
    outcome: str
    size: int


@dataclass(frozen=True)
class Asked:
    """Be a request to a task."""

    kind: str
    name: str
    sender: str
    seq: int | None


class Rows(ABC):
    """Look at the tasks of one namespace."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @abstractmethod
    def ids(self) -> list[str]:
        """Return the ids of all tasks."""

    @abstractmethod
    def saves(self, task_id: str) -> list[Kept]:
        """Return the kept saves of a task, the oldest first."""

    @abstractmethod
    def requests(self, task_id: str) -> list[Asked]:
        """Return what was asked of a task and did not come too late."""

    @abstractmethod
    def everything(self, task_id: str) -> object:
        """Return whatever is kept of a task, to be compared."""

    @abstractmethod
    def change(self, task_id: str, name: str, value: str) -> None:
        """Change a field of a task, as nothing but a fault would."""

    @abstractmethod
    def jobs(self) -> dict[str, bool]:
        """Return the kinds of maintenance that the store remembers, and whether each succeeded after it started."""


class DatabaseRows(Rows):
    @property
    def _tasks(self) -> Any:
        return Task.objects.using(self.store.alias).filter(namespace=encode_namespace(self.store.names))

    def ids(self) -> list[str]:
        return sorted(self._tasks.values_list("key", flat=True))

    def saves(self, task_id: str) -> list[Kept]:
        saves = Snapshot.objects.using(self.store.alias).filter(task_id=self._tasks.get(key=task_id).id)
        return [Kept(*row) for row in saves.order_by("save_seq").values_list("save_seq", "step", "outcome", "size")]

    def requests(self, task_id: str) -> list[Asked]:
        task = self._tasks.get(key=task_id).id
        items = MailboxItem.objects.using(self.store.alias).filter(task_id=task, dropped=False)
        return [Asked(*row) for row in items.order_by("id").values_list("kind", "name", "sender", "seq")]

    def everything(self, task_id: str) -> object:
        tasks = self._tasks.filter(key=task_id)
        parts = (Snapshot, JournalItem, MailboxItem, SpoolUse)
        kept = [model.objects.using(self.store.alias).filter(task_id=tasks.get().id).order_by("id") for model in parts]
        return (*tasks.values_list(), *(row for rows in kept for row in rows.values_list()))

    def change(self, task_id: str, name: str, value: str) -> None:
        assert self._tasks.filter(key=task_id).update(**{name: value}) == 1

    def jobs(self) -> dict[str, bool]:
        jobs = Job.objects.using(self.store.alias).filter(store=self.store.alias)
        return {job.kind: job.succeeded_at is not None and job.succeeded_at >= job.started_at for job in jobs}


class MemoryRows(Rows):
    @property
    def _backend(self) -> MemoryBackend:
        assert isinstance(self.store.backend, MemoryBackend)
        return self.store.backend

    def _task(self, task_id: str) -> TaskRow:
        task = self._backend.memory.tasks.of(self.store.durable.entry(task_id))
        assert task is not None
        return task

    def ids(self) -> list[str]:
        return sorted(task.key for task in self._backend.memory.tasks.within(encode_namespace(self.store.names)))

    def saves(self, task_id: str) -> list[Kept]:
        saves = sorted(self._task(task_id).saves.values(), key=lambda saved: saved.save_seq)
        return [Kept(saved.save_seq, saved.step, saved.outcome, len(saved.state)) for saved in saves]

    def requests(self, task_id: str) -> list[Asked]:
        return [Asked(each.kind, each.name, each.sender, each.seq) for each in self._task(task_id).mailbox]

    def everything(self, task_id: str) -> object:
        task = self._task(task_id)
        uses = self._backend.memory.blobs.used_by(task.id)
        return repr([*((field.name, getattr(task, field.name)) for field in fields(task)), uses])

    def change(self, task_id: str, name: str, value: str) -> None:
        task = self._task(task_id)
        assert isinstance(getattr(task, name), str)
        setattr(task, name, value)

    def jobs(self) -> dict[str, bool]:
        jobs = self._backend.memory.jobs
        return {kind: ended is not None and ended >= started for kind, (started, ended) in jobs.items()}


def rows_of(store: Store) -> Rows:
    return MemoryRows(store) if isinstance(store.backend, MemoryBackend) else DatabaseRows(store)
