"""What a step is told, and what it may do beside returning its new state."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from ..contracts.reader import SpoolReader
from ..contracts.source import Data
from ..exceptions import InvalidArgument, ModelBudgetExceeded

if TYPE_CHECKING:
    from ..store import Store
    from .lease import TaskLease


class StepContext:
    """Be the second argument of a step.

    ``task_id``; ``attempt``, from 1: how often this turn of the step was entered; ``turn``, from 1: how often the step
    was repeated; ``fence``, a number that rises with every worker: hand it to outside systems that can refuse a lower
    one; ``store``, at the task's namespace; ``app``, what ``run(app=…)`` or the definition gave.
    """

    def __init__(
        self,
        store: Store,
        lease: TaskLease,
        *,
        task_id: str,
        step: str,
        turn: int,
        attempt: int,
        app: Any,
        calls: int,
    ) -> None:
        self.store, self.task_id, self.step, self.turn, self.attempt, self.app = (
            store,
            task_id,
            step,
            turn,
            attempt,
            app,
        )
        self._lease = lease
        self._calls, self._counting = calls, threading.Lock()

    @property
    def calls_left(self) -> int:
        """Return how many model calls this attempt may still make."""
        return self._calls

    def spend_model_call(self) -> None:
        """Count one model call, before it is made; ``ModelBudgetExceeded`` beyond what the step declares.

        Writes nothing: the calls were reserved when the step was entered. Threads of the step may share it.
        """
        with self._counting:
            if self._calls < 1:
                raise ModelBudgetExceeded(f"step {self.step!r} has made all its model calls: raise its model_calls")
            self._calls -= 1

    @property
    def fence(self) -> int:
        return self._lease.fence

    @property
    def remaining(self) -> float:
        """Return the seconds left until the task's deadline, as this process reckons them; 0 when it is over."""
        return max(0.0, self._lease.deadline - time.monotonic())

    @property
    def cancelled(self) -> bool:
        """Return whether cancel was asked for, as of the last save or renewal: leave early, by returning or raising."""
        return self._lease.cancelled

    @property
    def lost(self) -> bool:
        """Return whether the lease is over: nothing that this run returns will be accepted."""
        return self._lease.lost

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
