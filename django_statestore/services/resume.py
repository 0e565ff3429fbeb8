"""Resume one task that a message, or a worker's own look at the due tasks, names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from .. import conf, flow, stores
from ..contracts.taskrecord import TaskRecord
from ..durable.drive import Drive
from ..durable.mismatch import let_go
from ..durable.place import Place
from ..durable.registry import definition_of
from ..durable.task import engine_of
from ..exceptions import LeaseLost, TaskBusy, TaskMismatch, UnknownDefinition
from ..flow import Flow
from ..store import Store

logger = logging.getLogger("django_statestore.resume")


def resume(alias: str, names: Sequence[str], task_id: str, *, stopping: Callable[[], bool] = bool) -> None:
    """Drive the task ``task_id`` of the store ``alias``, at the absolute namespace ``names``, for one slice.

    Never raises an ``Exception``: a task that is busy, finished, not due or not ours is left alone, and what a step
    raises is recorded on the task and logged. A process that is ``stopping`` hands the message on.
    """
    try:
        store = stores[alias].at(tuple(names))
    except Exception as error:
        logger.error(
            "a message names a store that cannot be used: %s",
            type(error).__name__,
            extra={"store": alias, "task_id": task_id},
        )
    else:
        flow.run(resumed(store, task_id, stopping=stopping))


def resumed(store: Store, task_id: str, *, stopping: Callable[[], bool] = bool) -> Flow[None]:
    """Do what ``resume`` does, at the namespace of ``store``, in either form."""
    try:
        yield from driven(store, task_id, stopping=stopping)
    except Exception as error:
        report(store, task_id, error)


def report(store: Store, task_id: str, error: Exception) -> None:
    """Log why a task was not driven further, without a value of it."""
    extra = {"store": store.alias, "task_id": task_id}
    if isinstance(error, TaskBusy):
        logger.debug("a message came for a task that a living worker holds", extra=extra)
    elif isinstance(error, LeaseLost):
        logger.warning("the lease on a task was lost: another worker took over", extra=extra)
    elif isinstance(error, TaskMismatch):
        logger.warning("this code cannot continue a task: %s", type(error).__name__, extra=extra)
    else:
        logger.error("a step of a task failed: %s", type(error).__name__, extra=extra)


def driven(store: Store, task_id: str, *, stopping: Callable[[], bool] = bool) -> Flow[None]:
    """Drive a task for one slice, if there is anything to do; raises what a step raises, once it is recorded."""
    tasks, entry = engine_of(store), store.durable.entry(task_id)
    record = yield from tasks.task_read(entry)
    if record is None or record.finished:
        return
    try:
        definition = definition_of(record.definition)
    except UnknownDefinition as error:
        yield from _leave(Place(store, tasks, entry, None), record, str(error))
        raise
    place = Place(store, tasks, entry, definition)
    if stopping():
        # The message is gone from its queue, and the sweep believes that it is on its way.
        if record.due:
            yield from place.send_if_active(record.id)
        return
    seconds = conf.get().run_slice / 1000
    left = yield from Drive(definition, place, seconds=seconds, stopping=stopping).run()
    if left.save_seq == record.save_seq:  # else the drive itself has sent what messages it takes
        yield from _hint_if_early(place, left)


def _leave(place: Place, record: TaskRecord, note: str) -> Flow[None]:
    """Leave a task of an unknown definition to code that knows it."""
    if record.parked or not record.due:
        return
    if record.restful:
        yield from place.tasks.task_restore(record.position)
    else:
        yield from let_go(place, record, "diverged", note)


def _hint_if_early(place: Place, record: TaskRecord) -> Flow[None]:
    """Send the message again for a task that it was a little too early for: its back-off is not cut short."""
    if record.finished or record.wake_at is None or record.worker:
        return
    early = int((record.wake_at - record.now).total_seconds() * 1000)
    if 0 < early <= conf.get().sweep_every:
        yield from place.send_if_active(record.id, early + 1)
