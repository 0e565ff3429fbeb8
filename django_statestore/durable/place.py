"""One task in its store, and the definition that this process has for it: what every operation starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import conf, flow
from ..contracts.taskrecord import TaskRecord
from ..contracts.tasks import TaskPrimitives
from ..exceptions import TaskNotFound
from ..flow import Flow
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

    def name_of(self, record: TaskRecord, index: int) -> str:
        """Return the name of a step for messages: as the row tells it, else as the code at hand does, else a number."""
        name = name_of_step(record.fingerprint, index)
        return name or (self.definition.step_name(index) if self.definition else f"number {index + 1}")

    # -- hints --------------------------------------------------------------------------------------------------------

    def hints(self) -> Flow[bool]:
        """Return whether a message can be sent when what is written now becomes visible."""
        return dispatch.active(self.store.alias) and (yield from self.tasks.task_hints())

    def notify(self) -> Flow[int | None]:
        """Return how long the sweep may trust the message that ``hint`` will send; None: none will be sent."""
        return conf.get().notify_grace if (yield from self.hints()) else None

    def hint(self, task: int, countdown: int = 0) -> Flow[None]:
        """Send a message for a task that was made due, once that is committed; the sweep learns if it was not sent."""
        yield from self.tasks.task_after_commit(lambda: self._send(task, countdown))

    def _send(self, task: int, countdown: int) -> None:
        queue = self.definition.queue if self.definition else None
        if not dispatch.send(self.store.alias, self.store.names, self.entry.key, queue=queue, countdown=countdown):
            self.tasks.task_unnotify(task).run()

    def after_commit(self, call: Callable[[], Flow[None]]) -> Flow[None]:
        """Run a flow once what was written is visible: now, or when the open transaction commits."""
        yield from self.tasks.task_after_commit(lambda: flow.run(call()))
