"""``DurableTask``: a definition, and what a user does with the tasks that are made by it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from .. import codec, stores
from ..contracts.taskrecord import TaskRecord
from ..contracts.tasks import TaskPrimitives
from ..exceptions import NotSupported, TaskNotFound
from ..flow import Flow, both
from ..store import Store
from ..ttl import Duration
from .definition import Definition
from .drive import Drive
from .handle import TaskHandle
from .place import Place
from .requests import asked, cancel_request, signal_request
from .starting import begin, new_task

S = TypeVar("S")

Names = Sequence[str]


class DurableTask(Definition[S]):
    """Define a durable task: multi-step work that survives a dead worker. One execution of it is a task.

    ``id`` names it for ever; a change of its steps or state wants a new ``revision``. ``deadline`` (seconds or a
    ``timedelta``, from the start) is required: past it a task is cancelled. ``state`` is a dataclass or a pydantic
    model (2.12 or later); without it ``is_state`` judges any value that the codec takes. ``max_attempts`` bounds the
    step entries of a task in all (default: one a step, and five). ``store`` is an alias, ``queue`` the Celery queue of
    its hints, ``retention`` how long a finished task is kept, ``app`` what steps find as ``ctx.app``.

    Declare definitions in an app's ``durable_tasks.py``, so that every process knows them.
    """

    # -- start --------------------------------------------------------------------------------------------------------

    def _start(
        self,
        state: S,
        *,
        task_id: str | None = None,
        namespace: Names = (),
        deadline: Duration | None = None,
        at: datetime | None = None,
    ) -> Flow[TaskHandle[S]]:
        """Start a task and return it. With a ``task_id`` that is known already, return that task, finished or not.

        ``at`` is the instant, an aware datetime before the deadline, before which no step is entered. ``TaskExists``:
        the id belongs to another definition or initial state. Joins the caller's transaction on the store's own
        database: rolled back, the task was never there; its hint is sent on commit. Inside a block on another database
        it is started when that block has committed (a crash between the two loses it).
        """
        place = self.place(uuid.uuid4().hex if task_id is None else task_id, namespace)
        payload = self.encode(state)
        digest = hashlib.sha256(f"{self.id}\0{payload}".encode()).digest()
        new = new_task(self, place, payload, digest, deadline=deadline, at=at)
        record = yield from begin(place, new, place.tasks.task_start)
        return self.handle(record, namespace)

    # -- look, drive, ask ----------------------------------------------------------------------------------------------

    def _get(self, task_id: str, *, namespace: Names = ()) -> Flow[TaskHandle[S]]:
        """Return the task as it is now; ``TaskNotFound`` where there is none of this definition."""
        record = yield from self.place(task_id, namespace).read()
        if record.definition != self.id:
            raise TaskNotFound(f"the task {task_id!r} is not one of {self.id!r}")
        return self.handle(record, namespace)

    def _run(self, task_id: str, *, namespace: Names = (), app: Any = None) -> Flow[TaskHandle[S]]:
        """Drive the task here and now until it ends, waits, is parked, or fails; return it as it is then.

        A step's exception is raised once it is recorded. ``TaskBusy``: a living worker holds it. ``TaskMismatch``: this
        code cannot continue it. ``LeaseLost``: another worker took over. Not inside an open transaction.
        """
        return self.handle((yield from Drive(self, self.place(task_id, namespace), app=app).run()), namespace)

    def _signal(
        self,
        task_id: str,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        sender: str = "",
        namespace: Names = (),
    ) -> Flow[TaskHandle[S]]:
        """Send the task the signal ``name``; return it as it is then.

        The signal is kept, durably, until a step waits for that name; first in, first out. Of signals with one ``key``
        to a task the first counts and the others change nothing. Inside a transaction it is sent when that commits.
        ``TaskFinished`` and ``TaskNotFound`` say that nobody will ever read it.
        """
        place = self.place(task_id, namespace)
        yield from asked(place, signal_request(name, payload, key, sender))
        return self.handle((yield from place.read()), namespace)

    def _cancel(
        self, task_id: str, reason: str = "cancelled", *, namespace: Names = (), sender: str = ""
    ) -> Flow[TaskHandle[S]]:
        """Ask for the task to be cancelled, for ``reason``, by ``sender``; return it as it is then.

        A task that nobody holds ends at once. A running step goes on; the task ends with its save, which keeps the
        result, unless that was the last step. Inside a transaction it is asked when that commits. ``TaskFinished`` and
        ``TaskNotFound`` say that there is nothing to cancel.
        """
        place = self.place(task_id, namespace)
        yield from asked(place, cancel_request(reason, sender))
        return self.handle((yield from place.read()), namespace)

    start, astart = both(_start)
    get, aget = both(_get)
    run, arun = both(_run)
    signal, asignal = both(_signal)
    cancel, acancel = both(_cancel)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def plain(self, payload: str | None) -> Any:
        """Return the plain value of a state's payload, without judging it."""
        return None if payload is None else codec.loads(payload)

    def place(self, task_id: str, namespace: Names) -> Place:
        """Return where a task of this definition is, or would be."""
        store = stores[self.store_alias].namespace(*namespace)
        return Place(store, engine_of(store), store.durable.entry(task_id), self)

    def handle(self, record: TaskRecord, namespace: Names) -> TaskHandle[S]:
        """Return the view of a row."""
        return TaskHandle(record.key, tuple(namespace), self, record)


def engine_of(store: Store) -> TaskPrimitives:
    """Return the primitives of a store that can carry the engine, or raise ``NotSupported``."""
    if not isinstance(store.backend, TaskPrimitives):
        raise NotSupported(
            f"the store {store.alias!r} ({type(store.backend).__name__}) cannot run durable tasks: "
            "use one on a database, or in memory"
        )
    return store.backend
