"""Events of a task: a signal for the code, a log record for the people.

Each function returns an action, for ``yield from`` in a flow, after the write that it tells of and outside any
transaction. An action never raises an ``Exception``, and costs next to nothing where nobody listens.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from django.dispatch import Signal

from .. import signals
from ..contracts.taskrecord import TaskRecord
from ..flow import Action
from .differences import name_of_step

if TYPE_CHECKING:
    from ..store import Store
    from .definition import Definition

logger = logging.getLogger("django_statestore.durable")


class _Nobody(Action[None]):
    """Tell nobody."""

    __slots__ = ()

    def run(self) -> None:
        pass

    async def arun(self) -> None:
        pass


_NOBODY = _Nobody()


class _Event(Action[None]):
    """Tell of one event."""

    __slots__ = ("_details", "_level", "_name", "_signal", "_task")

    def __init__(
        self, name: str, level: int, signal: Signal, task: Definition[Any] | None, details: dict[str, Any]
    ) -> None:
        self._name, self._level, self._signal, self._task, self._details = name, level, signal, task, details

    def run(self) -> None:
        self._log()
        try:
            answers = self._signal.send_robust(sender=self._task, **self._details)
        except Exception as error:  # Django's own robustness has holes, such as an async receiver inside a loop
            self._failed(self._signal, error)
        else:
            self._judge(answers)

    async def arun(self) -> None:
        self._log()
        try:
            answers = await self._signal.asend_robust(sender=self._task, **self._details)
        except Exception as error:
            self._failed(self._signal, error)
        else:
            self._judge(answers)

    def _log(self) -> None:
        told, what = self._details, self._name.replace("_", " ")
        more = [str(told[name]) for name in ("step", "outcome", "reason") if told.get(name)]
        text = "%s: %r of %s" + (f" ({', '.join(more)})".replace("%", "%%") if more else "")
        logger.log(self._level, text, what, told["task_id"], told["definition"], extra={"event": self._name, **told})

    def _judge(self, answers: list[tuple[Any, Any]]) -> None:
        for receiver, answer in answers:
            if isinstance(answer, Exception):
                self._failed(receiver, answer)

    def _failed(self, receiver: Any, error: Exception) -> None:
        extra = {"event": self._name, "store": self._details["store"], "task_id": self._details["task_id"]}
        named = receiver if hasattr(receiver, "__qualname__") else type(receiver)
        name = f"{named.__module__}.{named.__qualname__}"
        logger.error("a receiver of %s failed: %s raised %s", self._name, name, type(error).__name__, extra=extra)


def _event(
    name: str,
    level: int,
    definition: Definition[Any] | None,
    store: Store,
    record: TaskRecord,
    **details: Any,
) -> Action[None]:
    signal: Signal = getattr(signals, name)
    if not signal.receivers and not logger.isEnabledFor(level):
        return _NOBODY
    base = store.backend.names
    below = store.names[len(base) :] if store.names[: len(base)] == base else store.names
    told = {
        "store": store.alias,
        "namespace": tuple(below),
        "task_id": record.key,
        "definition": record.definition,
        "revision": record.revision,
        "status": record.status,
        "reason": record.reason,
        "step": name_of_step(record.fingerprint, record.step_index),
    }
    return _Event(name, level, signal, definition, told | details)


def task_started(definition: Definition[Any] | None, store: Store, record: TaskRecord) -> Action[None]:
    """Tell that a task was started, once that is committed."""
    return _event("task_started", logging.INFO, definition, store, record)


def step_finished(
    definition: Definition[Any] | None,
    store: Store,
    record: TaskRecord,
    *,
    step: str,
    turn: int,
    attempt: int,
    outcome: str,
    milliseconds: int,
) -> Action[None]:
    """Tell that a step has ended and that is saved; ``outcome`` ``"raised"``: that its failure is recorded."""
    level = logging.WARNING if outcome == "raised" else logging.DEBUG
    ran = {"step": step, "turn": turn, "attempt": attempt, "outcome": outcome, "milliseconds": milliseconds}
    return _event("step_finished", level, definition, store, record, **ran)


def task_finished(definition: Definition[Any] | None, store: Store, record: TaskRecord) -> Action[None]:
    """Tell that a task has completed or was cancelled."""
    return _event("task_finished", logging.INFO, definition, store, record)


def task_parked(definition: Definition[Any] | None, store: Store, record: TaskRecord) -> Action[None]:
    """Tell that a task waits for an operator."""
    return _event("task_parked", logging.WARNING, definition, store, record)


def lease_lost(
    definition: Definition[Any] | None, store: Store, record: TaskRecord, *, step: str | None
) -> Action[None]:
    """Tell that another worker took over; ``record`` is what this one knew."""
    return _event(
        "lease_lost",
        logging.WARNING,
        definition,
        store,
        record,
        step=step,
        turn=record.turn,
        attempt=record.attempt,
    )
