"""Resume one task that a message, or a worker's own look at the due tasks, names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from .. import conf, flow, stores
from ..contracts.tasks import TaskPrimitives, TaskRecord
from ..durable import dispatch
from ..durable.drive import Drive
from ..durable.registry import definition_of
from ..durable.task import engine_of
from ..exceptions import LeaseLost, TaskBusy, TaskMismatch
from ..keys import Entry
from ..store import Store

logger = logging.getLogger("django_statestore.resume")


def resume(alias: str, names: Sequence[str], task_id: str, *, stopping: Callable[[], bool] = bool) -> None:
    """Drive the task ``task_id`` of the store ``alias``, at the absolute namespace ``names``, for one slice.

    Never raises an ``Exception``: a task that is busy, finished, not due or not ours is left alone, and what a step
    raises is recorded on the task and logged.
    """
    extra = {"store": alias, "task_id": task_id}
    try:
        store = stores[alias].at(tuple(names))
        tasks, entry = engine_of(store), store.durable.entry(task_id)
        record = tasks.task_read(entry).run()
        if record is None or record.finished:
            return
        definition = definition_of(record.definition)
        seconds = conf.get().run_slice / 1000
        drive = Drive(definition, store, tasks, entry, seconds=seconds, stopping=stopping)
        _hint_if_early(store, tasks, entry, flow.run(drive.run()), definition.queue)
    except TaskBusy:
        logger.debug("a message came for a task that a living worker holds", extra=extra)
    except LeaseLost:
        logger.warning("the lease on a task was lost: another worker took over", extra=extra)
    except TaskMismatch as error:
        logger.warning("this code cannot continue a task: %s", type(error).__name__, extra=extra)
    except Exception as error:
        logger.error("a step of a task failed: %s", type(error).__name__, extra=extra)


def _hint_if_early(store: Store, tasks: TaskPrimitives, entry: Entry, record: TaskRecord, queue: str | None) -> None:
    """Send the message again for a task that it was a little too early for: its back-off is not cut short."""
    if record.finished or record.wake_at is None or record.worker:
        return
    early = int((record.wake_at - record.now).total_seconds() * 1000)
    soon = 0 < early <= conf.get().sweep_every
    if soon and not dispatch.send(store.alias, store.names, entry.key, queue=queue, countdown=early + 1):
        tasks.task_unnotify(record.id).run()
