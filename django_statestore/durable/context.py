"""What a step is told, and what it may do beside returning its new state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import codec
from ..contracts.journal import Item
from ..contracts.reader import SpoolReader
from ..contracts.source import Data
from ..contracts.tasks import TaskPrimitives
from ..exceptions import InvalidArgument, ModelBudgetExceeded, StepTimeout
from ..flow import Flow, both
from ..keys import check_text
from .calls import Calls
from .invoke import Invoke
from .leaving import Cancelled, DeadlinePassed, LeaseOver
from .outcomes import Signal

if TYPE_CHECKING:
    from ..store import Store
    from .lease import TaskLease


class StepContext:
    """Be the second argument of a step.

    ``task_id``; ``attempt``, from 1: how often this turn of the step was entered; ``turn``, from 1: how often the step
    was repeated; ``fence``, a number that rises with every worker: hand it to outside systems that can refuse a lower
    one; ``store``, at the task's namespace; ``app``, what ``run(app=…)`` or the definition gave; ``received``, the
    ``Signal`` that the step was woken by, also when it is entered again; None: it waited for none, or timed out.
    """

    def __init__(
        self,
        store: Store,
        tasks: TaskPrimitives,
        lease: TaskLease,
        *,
        task_id: str,
        step: str,
        turn: int,
        attempt: int,
        app: Any,
        calls: int,
        received: Signal | None = None,
        timeout: float | None = None,
        atomic: bool = False,
        journals: bool = True,
    ) -> None:
        self.store, self.task_id, self.step, self.turn, self.attempt = store, task_id, step, turn, attempt
        self.app, self.received = app, received
        self._tasks, self._lease, self._atomic = tasks, lease, atomic
        self._until = None if timeout is None else time.monotonic() + timeout
        keeps = journals and not atomic
        self._journal = Calls(store, tasks, lease, task_id, step, first=attempt == 1) if keeps else None
        self._calls, self._lock = calls, threading.Lock()
        self._appended: list[Item] = []

    # -- the journal --------------------------------------------------------------------------------------------------

    def _call(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Flow[Any]:
        """Call ``function(*args, **kwargs)``, once: a step that is entered again gets the result that was kept.

        The result is kept, durably, when this returns; it must be a value that the codec takes. ``name`` and how often
        it was called tell a call from others of the step, so an interrupted step must make the same calls again:
        ``JournalMismatch`` where the arguments differ. A call whose worker died in it is made again. What is kept ends
        with the step's save. Inside an atomic step, and in a reconcile function, nothing is kept: the function is just
        called. An async step awaits ``acall``, which takes functions of either kind.
        """
        if self._journal is None:
            return (yield from Invoke(function, args, kwargs))
        return (yield from self._journal.call(name, function, args, kwargs))

    call, acall = both(_call)

    def append(self, name: str, value: Any) -> None:
        """Add ``value`` to the append-only items ``name`` of the task, with the save of this step: all or nothing.

        They are a part of the state that a save does not write again. Refused like any value that would not come back.
        """
        check_text(name, "the name of items")
        item = Item(name, codec.dumps(value))
        with self._lock:
            self._appended.append(item)

    def _items(self, name: str) -> Flow[list[Any]]:
        """Return the items ``name``, the oldest first: those that were saved, then those appended in this step."""
        check_text(name, "the name of items")
        saved = yield from self._tasks.task_items(self._lease.task, name)
        with self._lock:
            added = [item.value for item in self._appended if item.name == name]
        return [codec.loads(value) for value in (*saved, *added)]

    items, aitems = both(_items)

    @property
    def appended(self) -> tuple[Item, ...]:
        """Return what this run of the step has appended."""
        with self._lock:
            return tuple(self._appended)

    # -- model calls --------------------------------------------------------------------------------------------------

    @property
    def calls_left(self) -> int:
        """Return how many model calls this attempt may still make."""
        return self._calls

    def spend_model_call(self) -> None:
        """Count one model call, before it is made; ``ModelBudgetExceeded`` beyond what the step declares.

        Writes nothing: the calls were reserved when the step was entered. Threads of the step may share it.
        """
        with self._lock:
            if self._calls < 1:
                raise ModelBudgetExceeded(f"step {self.step!r} has made all its model calls: raise its model_calls")
            self._calls -= 1

    # -- how the task stands ------------------------------------------------------------------------------------------

    @property
    def fence(self) -> int:
        return self._lease.fence

    @property
    def remaining(self) -> float:
        """Return the seconds left until the task's deadline, or the step's own time-out, as this process reckons them.

        0 when it is over.
        """
        ends = self._lease.deadline if self._until is None else min(self._lease.deadline, self._until)
        return max(0.0, ends - time.monotonic())

    @property
    def cancelled(self) -> bool:
        """Return whether cancel was asked for, as of the last save or renewal: leave early, by ``check()``."""
        return self._lease.cancelled

    @property
    def lost(self) -> bool:
        """Return whether the lease is over: nothing that this run returns will be accepted."""
        # Inside the transaction of an atomic step nothing can be renewed on SQLite, and nothing claimed either: there
        # only the store's own word counts. What comes too late is rolled back.
        return self._lease.refused if self._atomic else self._lease.lost

    def check(self) -> None:
        """Leave the step here if going on is no use: call it between pieces of long work. Asks no store.

        Raises ``LeaseOver``, ``Cancelled`` or ``DeadlinePassed``, which no ``except Exception`` catches, or
        ``StepTimeout``, a failure like others, past the step's own ``timeout``.
        """
        now = time.monotonic()
        if self.lost:
            raise LeaseOver(f"the lease on the task {self.task_id!r} was lost")
        if self.cancelled:
            raise Cancelled(f"the task {self.task_id!r} is to be cancelled")
        if now >= self._lease.deadline:
            raise DeadlinePassed(f"the deadline of the task {self.task_id!r} has passed")
        if self._until is not None and now >= self._until:
            raise StepTimeout(f"step {self.step!r} has run longer than its timeout")

    def progress(self, fraction: float, text: str = "") -> None:
        """Note how far the task is, 0 to 1. Kept in memory; written with the next renewal or save."""
        if not 0 <= fraction <= 1:
            raise InvalidArgument("progress must be from 0 to 1")
        self._lease.report(float(fraction), text)

    def spool(self, data: Data, name: str = "") -> SpoolReader:
        """Keep large bytes for as long as the task's row is kept; put ``.ref`` of the reader into the state.

        From an async step call it in a thread (``sync_to_async``).
        """
        return self._lease.spool(self.store, self.task_id, data, name or self.step)
