"""The view of a task that ``start``, ``get`` and ``run`` return."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..contracts.checkpoint import Checkpoint
from ..contracts.tasks import Status, TaskRecord
from ..flow import Flow, both
from ..keys import Namespace

if TYPE_CHECKING:
    from .task import DurableTask

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class TaskHandle(Generic[S]):
    """Show a task as it was when it was read; ``refresh()`` reads it anew."""

    id: str
    namespace: Namespace
    """Below the namespace of the definition's store."""
    definition: DurableTask[S] = field(repr=False)
    record: TaskRecord = field(repr=False)

    @property
    def status(self) -> Status:
        """Return ``"ready"``, ``"running"`` (a step is open), ``"completed"`` or ``"cancelled"``."""
        return self.record.status

    @property
    def reason(self) -> str:
        """Return why the task is parked or was cancelled, else ``""``."""
        return self.record.reason

    @property
    def parked(self) -> bool:
        """Return whether the task waits for an operator; ``reason`` says why."""
        return self.record.parked

    @property
    def state(self) -> S:
        """Return the newest saved state, a copy of its own; ``StateInvalid`` where this code cannot read it."""
        return self.definition.decode(self.record.state)

    @property
    def step(self) -> str | None:
        """Return the name of the step that is open or comes next; None: the task has completed."""
        index = self.record.step_index
        return None if self.status == "completed" else self.definition.step_name(index)

    @property
    def attempt(self) -> int:
        """Return how often the step was entered since the newest save, 0 if it was not."""
        return self.record.attempt

    @property
    def last_error(self) -> str:
        """Return what the step last raised, as text, or ``""``."""
        return self.record.last_error

    @property
    def progress(self) -> tuple[float, str] | None:
        """Return what the step last reported with ``ctx.progress``."""
        return None if self.record.progress is None else (self.record.progress, self.record.progress_text)

    @property
    def created_at(self) -> datetime:
        return self.record.created_at

    @property
    def finished_at(self) -> datetime | None:
        return self.record.finished_at

    @property
    def checkpoint(self) -> Checkpoint:
        """Return the seed contract's checkpoint of the task; its state is a plain value."""
        return self.record.checkpoint(self.definition.plain(self.record.state))

    def _refresh(self) -> Flow[TaskHandle[S]]:
        """Read the task anew; ``TaskNotFound`` once it was purged."""
        return (yield from self.definition._get(self.id, namespace=self.namespace))

    def _run(self, *, app: Any = None) -> Flow[TaskHandle[S]]:
        """Drive the task here and now, as ``DurableTask.run`` does."""
        return (yield from self.definition._run(self.id, namespace=self.namespace, app=app))

    def _cancel(self, reason: str = "cancelled", *, sender: str = "") -> Flow[TaskHandle[S]]:
        """Ask for the task to be cancelled, as ``DurableTask.cancel`` does."""
        return (yield from self.definition._cancel(self.id, reason, namespace=self.namespace, sender=sender))

    refresh, arefresh = both(_refresh)
    run, arun = both(_run)
    cancel, acancel = both(_cancel)
