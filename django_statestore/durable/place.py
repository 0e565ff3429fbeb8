"""One task in its store, and the definition that this process has for it: what every operation starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import conf, flow
from ..contracts.taskrecord import TaskRecord
from ..contracts.tasks import TaskPrimitives
from ..exceptions import DefinitionMismatch, TaskNotFound, UnknownDefinition
from ..flow import Call, Flow
from ..keys import Entry
from ..store import Store
from . import dispatch
from .definition import Definition
from .differences import name_of_step


@dataclass(frozen=True, slots=True)
class Place:
    """Name one task. ``definition`` is None where this process knows none of its id."""

    store: Store
    tasks: TaskPrimitives
    entry: Entry
    definition: Definition[Any] | None

    def read(self) -> Flow[TaskRecord]:
        """Return the task's row; ``TaskNotFound`` where there is none."""
        record = yield from self.tasks.task_read(self.entry)
        if record is None:
            raise TaskNotFound(f"there is no task {self.entry.key!r} in this namespace")
        return record

    def read_driven(self) -> Flow[TaskRecord]:
        """Return the same; ``TaskNotFound`` also for what a foreign engine keeps under this id."""
        record = yield from self.read()
        if not record.driven:
            raise TaskNotFound(f"the task {self.entry.key!r} is not one that this engine drives")
        return record

    def known(self, record: TaskRecord) -> Definition[Any]:
        """Return the definition that made the task, or say that this process has none, or another."""
        if self.definition is None:
            raise UnknownDefinition(f"no installed app defines the durable task {record.definition!r}")
        if record.definition != self.definition.id:
            raise DefinitionMismatch(f"the task {record.key!r} is not one of {self.definition.id!r}")
        return self.definition

    def name_of(self, record: TaskRecord, index: int) -> str:
        """Return the name of a step for messages: as the row tells it, else as the code at hand does, else a number."""
        name = name_of_step(record.fingerprint, index)
        return name or (self.definition.step_name(index) if self.definition else f"number {index + 1}")

    # -- hints --------------------------------------------------------------------------------------------------------

    def notify(self) -> Flow[int | None]:
        """Return how long the sweep may trust the message that ``hint`` will send; None: none will be sent."""
        hints = dispatch.active(self.store.alias) and (yield from self.tasks.task_hints())
        return conf.get().notify_grace if hints else None

    def hint(self, task: int, countdown: int = 0) -> Flow[None]:
        """Send a message for a task that was made due, once that is committed; the sweep learns if it was not sent."""

        def send() -> None:
            self.send(task, countdown)

        yield from self.tasks.task_after_commit(send)

    def send(self, task: int, countdown: int = 0) -> bool:
        """Send a message now; False: it could not be sent, and the row no longer says that it was. May block."""
        queue = self.definition.queue if self.definition else None
        sent = dispatch.send(self.store.alias, self.store.names, self.entry.key, queue=queue, countdown=countdown)
        if not sent:
            self.tasks.task_unnotify(task).run()
        return sent

    def send_if_active(self, task: int, countdown: int = 0) -> Flow[None]:
        """Send a message now, where messages are sent at all; not from inside a transaction."""
        if dispatch.active(self.store.alias):
            yield from Call(self.send, task, countdown)

    def after_commit(self, call: Callable[[], Flow[None]]) -> Flow[None]:
        """Run a flow once what was written is visible: now, or when the open transaction commits."""
        yield from self.tasks.task_after_commit(lambda: flow.run(call()))
