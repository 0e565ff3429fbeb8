"""The view of a task that ``start``, ``get`` and ``run`` return."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..contracts.checkpoint import Checkpoint
from ..contracts.history import SavedStep
from ..contracts.journal import JournalLine
from ..contracts.mailbox import Letter
from ..contracts.taskrecord import Status, TaskRecord
from ..flow import Flow, both
from ..keys import Namespace
from ..ttl import Duration
from . import forking, repairs
from . import history as past
from .comparing import Difference
from .place import Place
from .requests import asked, grant_request
from .waiting import Wait, waiting_of

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
        """Return the name of the step that is open or comes next; None: the task has completed, or no step is left."""
        return self.definition.name_of(self.record)

    @property
    def waiting(self) -> Wait | None:
        """Return the signal that the task waits for, and until when; None: it waits for none."""
        return waiting_of(self.record)

    @property
    def forked_from(self) -> int | None:
        """Return the number of the row (``record.id``) of the task that this one was forked from, if it was."""
        return self.record.forked_from

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

    def _signal(
        self, name: str, payload: Any = None, *, key: str | None = None, sender: str = ""
    ) -> Flow[TaskHandle[S]]:
        """Send the task a signal, as ``DurableTask.signal`` does."""
        send = self.definition._signal
        return (yield from send(self.id, name, payload, key=key, sender=sender, namespace=self.namespace))

    refresh, arefresh = both(_refresh)
    run, arun = both(_run)
    cancel, acancel = both(_cancel)
    signal, asignal = both(_signal)

    # -- repair -------------------------------------------------------------------------------------------------------
    #
    # Each is recorded in the journal with its sender. ``TaskFinished``: the task has ended. Those that are not asked of
    # a running worker raise ``TaskBusy`` while one holds the task, and ``RepairRefused``, with the reason, where there
    # is nothing to repair.

    def _grant(
        self, *, attempts: int = 0, model_calls: int = 0, deadline: Duration | None = None, sender: str = ""
    ) -> Flow[TaskHandle[S]]:
        """Add to the limits of the task, and take it up again if it was parked; return it as it is then.

        ``deadline``: at least so many seconds from now. A running worker keeps the task, with the new limits. Inside a
        transaction it is granted when that commits.
        """
        yield from asked(self._place, grant_request(attempts, model_calls, deadline, sender))
        return self._shown((yield from self._place.read()))

    def _retry_now(self, *, sender: str = "") -> Flow[TaskHandle[S]]:
        """Take the task up again if it was parked, or end its back-off; a sleep or wait is not cut short."""
        return self._shown((yield from repairs.retry_now(self._place, sender)))

    def _mark_done(self, state: S | dict[str, Any], *, sender: str = "") -> Flow[TaskHandle[S]]:
        """Take the interrupted step for done, with ``state`` as its outcome, plain or not; the task goes on behind it.

        Where other code made the task, give the plain value of its state.
        """
        return self._shown((yield from repairs.mark_done(self._place, state, sender)))

    def _mark_not_done(self, *, sender: str = "") -> Flow[TaskHandle[S]]:
        """Take the interrupted step for not done: it is entered again, and not reconciled."""
        return self._shown((yield from repairs.mark_not_done(self._place, sender)))

    def _migrate(self, *, sender: str = "") -> Flow[TaskHandle[S]]:
        """Carry the task over to the revision that this code has, by the definition's migrations.

        It stays at the step of that name, waits on if it waits, and is taken up again if it was parked.
        """
        return self._shown((yield from repairs.migrate(self._place, sender)))

    grant, agrant = both(_grant)
    retry_now, aretry_now = both(_retry_now)
    mark_done, amark_done = both(_mark_done)
    mark_not_done, amark_not_done = both(_mark_not_done)
    migrate, amigrate = both(_migrate)

    # -- history ------------------------------------------------------------------------------------------------------

    def _history(self) -> Flow[list[SavedStep]]:
        """Return the kept saves, the oldest first, without their states: the last 20, within ``HISTORY_BYTES``."""
        return (yield from past.saves(self._place))

    def _state_after(self, save: int) -> Flow[S]:
        """Return the state after a save; ``SnapshotGone``: it is not kept; ``StateInvalid``: other code made it."""
        return self.definition.decode((yield from past.payload_after(self._place, save)))

    def _diff(self, a: int, b: int) -> Flow[list[Difference]]:
        """Return where the plain states after the saves ``a`` and ``b`` differ; ``SnapshotGone``: one is not kept."""
        return (yield from past.difference_of(self._place, a, b))

    def _fork(
        self,
        *,
        from_step: str | None = None,
        state: S | dict[str, Any] = forking.UNSET,
        task_id: str | None = None,
        sender: str = "",
    ) -> Flow[TaskHandle[S]]:
        """Start another task that goes on from where this one stands, or stood before ``from_step``.

        Its state is the newest, or that of the oldest kept save before ``from_step``, or ``state``, which needs none.
        Appended items up to that save and spooled data are taken over, but no calls and no signals; without such a
        save no items. It has the full limits of the definition. With a ``task_id`` the same fork again returns the same
        task; ``TaskExists``: the id is another's. ``SnapshotGone``: no such save is kept: give a ``state``.
        ``TaskMismatch``: other code made it.
        """
        record = yield from forking.fork(self._place, from_step, state, task_id, sender)
        return self._shown(record)

    def _journal(self, *, after: int = 0, limit: int = past.LINES) -> Flow[list[JournalLine]]:
        """Return up to ``limit`` lines of the journal with numbers above ``after``: items, calls and repairs."""
        return (yield from past.lines(self._place, after, limit))

    def _letters(self) -> Flow[list[Letter]]:
        """Return the requests to the task (signals, cancels, grants) in the order in which they were made."""
        return (yield from past.letters(self._place))

    def _items(self, name: str) -> Flow[list[Any]]:
        """Return the values that steps appended under ``name``, the oldest first."""
        return (yield from past.items(self._place, name))

    history, ahistory = both(_history)
    state_after, astate_after = both(_state_after)
    diff, adiff = both(_diff)
    fork, afork = both(_fork)
    journal, ajournal = both(_journal)
    letters, aletters = both(_letters)
    items, aitems = both(_items)

    # -- helpers ------------------------------------------------------------------------------------------------------

    @property
    def _place(self) -> Place:
        return self.definition.place(self.id, self.namespace)

    def _shown(self, record: TaskRecord) -> TaskHandle[S]:
        return self.definition.handle(record, self.namespace)
