"""Repair tasks, and ask things of them, by their store and id: for the admin and the API.

They work where this process does not know the code of the task, too, but for ``migrate`` and ``fork``. Each takes the
store at the task's namespace, keeps ``sender`` with what it did (``fork`` logs it), and returns the row as it is then.
``TaskNotFound``, ``TaskFinished``, ``TaskBusy`` and ``RepairRefused`` say why there was nothing to do.
"""

from __future__ import annotations

from typing import Any

from .. import flow
from ..contracts.taskrecord import TaskRecord
from ..durable import repairs
from ..durable.forking import UNSET
from ..durable.forking import fork as forked
from ..durable.place import Place
from ..durable.registry import find_definition
from ..durable.requests import asked, cancel_request, grant_request, signal_request
from ..durable.task import engine_of
from ..exceptions import TaskNotFound
from ..store import Store
from ..ttl import Duration


def place_of(store: Store, task_id: str) -> Place:
    """Return where the task is, with its definition, if it is known here; ``TaskNotFound`` where there is none."""
    tasks, entry = engine_of(store), store.durable.entry(task_id)
    record = tasks.task_read(entry).run()
    if record is None:
        raise TaskNotFound(f"there is no task {task_id!r} in this namespace")
    return Place(store, tasks, entry, find_definition(record.definition))


def grant(
    store: Store,
    task_id: str,
    *,
    attempts: int = 0,
    model_calls: int = 0,
    deadline: Duration | None = None,
    sender: str = "",
) -> TaskRecord:
    """Add to the limits of a task, and take it up again if it was parked; also while a worker holds it."""
    place = place_of(store, task_id)
    flow.run(asked(place, grant_request(attempts, model_calls, deadline, sender)))
    return flow.run(place.read())


def signal(
    store: Store, task_id: str, name: str, payload: Any = None, *, key: str | None = None, sender: str = ""
) -> TaskRecord:
    """Send a task a signal; of those with one ``key`` the first counts."""
    place = place_of(store, task_id)
    flow.run(asked(place, signal_request(name, payload, key, sender)))
    return flow.run(place.read())


def cancel(store: Store, task_id: str, reason: str = "cancelled", *, sender: str = "") -> TaskRecord:
    """Ask for a task to be cancelled; one that nobody holds ends at once."""
    place = place_of(store, task_id)
    flow.run(asked(place, cancel_request(reason, sender)))
    return flow.run(place.read())


def retry_now(store: Store, task_id: str, *, sender: str = "") -> TaskRecord:
    """Take a parked task up again, or end its back-off."""
    return flow.run(repairs.retry_now(place_of(store, task_id), sender))


def mark_done(store: Store, task_id: str, state: Any, *, sender: str = "") -> TaskRecord:
    """Take the interrupted step for done, with ``state`` as its outcome.

    A plain value; one of the definition's own type will do where this process has the code that made the task.
    """
    return flow.run(repairs.mark_done(place_of(store, task_id), state, sender))


def mark_not_done(store: Store, task_id: str, *, sender: str = "") -> TaskRecord:
    """Take the interrupted step for not done: it is entered again."""
    return flow.run(repairs.mark_not_done(place_of(store, task_id), sender))


def migrate(store: Store, task_id: str, *, sender: str = "") -> TaskRecord:
    """Carry a task over to the revision that this process has; ``UnknownDefinition``: it has none."""
    return flow.run(repairs.migrate(place_of(store, task_id), sender))


def fork(
    store: Store,
    task_id: str,
    *,
    from_step: str | None = None,
    state: Any = UNSET,
    new_id: str | None = None,
    sender: str = "",
) -> TaskRecord:
    """Start another task that goes on from a step of this one; return the row of the new one."""
    return flow.run(forked(place_of(store, task_id), from_step, state, new_id, sender))
