"""Django signals of durable tasks: what happened to a task, for metrics, alerts and the like.

Each is sent by the process that did the write, after the write, outside any transaction of ours. It tells once what
one process knows: a worker that dies between a write and its signal sends none, so nothing that must happen may hang
on one. A receiver that raises is logged by the type of its error, and neither the task nor another receiver notices.
Receivers run in the worker's own time: a slow one delays the next step.

``sender`` is the ``DurableTask``, or None where this process does not know the definition. All signals give

- ``store``, an alias; ``namespace``, the names below it as a tuple; ``task_id``: ``sender.get(task_id,
  namespace=namespace)`` reads the task;
- ``definition``, its id, and ``revision``;
- ``status`` and ``reason`` as they are after the event;
- ``step``, the name of the step that is open or comes next, unless said otherwise below; None where there is none.

State, payloads and tokens are in none of them. Each is also one record of the logger ``django_statestore.durable``,
with ``event`` (the signal's name) and the same names as attributes of the record.
"""

from __future__ import annotations

from typing import Any

from django.dispatch import Signal


class TaskSignal(Signal):
    """Be a signal whose sender logs the receivers that raise."""

    def _log_robust_failure(self, receiver: Any, err: Exception) -> None:
        """Say nothing here: Django would log the error's text, and fail over a receiver without a name."""


task_started = TaskSignal()
"""A task was started, and that is committed. Not sent for an id that was known already."""

step_finished = TaskSignal()
"""A step, or its reconcile function, has ended, and that is saved. ``step`` is that step.

Also ``turn`` and ``attempt`` (both from 1), ``outcome``, as the task's history shows it, or ``"raised"``, and
``milliseconds``, how long it ran.
"""

task_finished = TaskSignal()
"""A task has ended: ``status`` is ``"completed"`` or ``"cancelled"``, the latter with its ``reason``."""

task_parked = TaskSignal()
"""A task waits for an operator: ``reason`` says why."""

lease_lost = TaskSignal()
"""A worker found that another has taken its task over: what it did in ``step`` since its last save counts for nothing.

Also ``turn`` and ``attempt``, as that worker knew them.
"""
