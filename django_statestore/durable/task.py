"""``DurableTask``: a definition, and what a user does with the tasks that are made by it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from .. import codec, conf, flow, stores
from ..contracts.tasks import NewTask, TaskPrimitives, TaskRecord
from ..exceptions import InvalidArgument, NotSupported, TaskExists, TaskFinished, TaskNotFound
from ..flow import Flow, both
from ..keys import Entry
from ..store import Store
from ..ttl import Duration, milliseconds
from . import dispatch
from .cancelling import end_if_free
from .definition import Definition
from .drive import Drive
from .handle import TaskHandle
from .text import clean

S = TypeVar("S")

Names = Sequence[str]


class DurableTask(Definition[S]):
    """Define a durable task: multi-step work that survives a dead worker. One execution of it is a task.

    ``id`` names it for ever; a change of its steps or state wants a new ``revision``. ``deadline`` (seconds or a
    ``timedelta``, from the start) is required: past it a task is cancelled. ``state`` is a dataclass; without it
    ``is_state`` judges any value that the codec takes. ``max_attempts`` bounds the step entries of a task in all
    (default: one a step, and five). ``store`` is an alias, ``queue`` the Celery queue of its hints, ``retention`` how
    long a finished task is kept, ``app`` what steps find as ``ctx.app``.

    Declare definitions in an app's ``durable_tasks.py``, so that every process knows them.
    """

    # -- start --------------------------------------------------------------------------------------------------------

    def _start(
        self, state: S, *, task_id: str | None = None, namespace: Names = (), deadline: Duration | None = None
    ) -> Flow[TaskHandle[S]]:
        """Start a task and return it. With a ``task_id`` that is known already, return that task, finished or not.

        ``TaskExists``: the id belongs to another definition or initial state. Joins the caller's transaction on the
        store's own database: rolled back, the task was never there; its hint is sent on commit. Inside a block on
        another database it is started when that block has committed (a crash between the two loses it).
        """
        store, tasks, entry = self._place(namespace, uuid.uuid4().hex if task_id is None else task_id)
        new = self._new(entry, self.encode(state), deadline)
        if (yield from tasks.task_deferred(lambda: self._start_later(store, tasks, new))):
            return self._handle(entry, namespace, _expected(new))
        return self._handle(entry, namespace, (yield from self._started(store, tasks, new)))

    def _start_later(self, store: Store, tasks: TaskPrimitives, new: NewTask) -> None:
        flow.run(self._started(store, tasks, new))

    def _new(self, entry: Entry, payload: str, deadline: Duration | None) -> NewTask:
        budget = self.model_budget
        return NewTask(
            entry=entry,
            definition=self.id,
            revision=self.revision,
            fingerprint=self.fingerprint,
            start_digest=hashlib.sha256(f"{self.id}\0{payload}".encode()).digest(),
            state=payload,
            max_attempts=self.max_attempts,
            deadline=self.limits.deadline if deadline is None else milliseconds(deadline, "deadline"),
            max_calls=budget.max_calls if budget else None,
            max_calls_per_attempt=budget.per_attempt if budget else None,
            retention=self.limits.retention,
            notify=None,
        )

    def _started(self, store: Store, tasks: TaskPrimitives, new: NewTask) -> Flow[TaskRecord]:
        hints = dispatch.active(store.alias) and (yield from tasks.task_hints())
        new = replace(new, notify=conf.get().notify_grace if hints else None)
        started = yield from tasks.task_start(new)
        record = yield from tasks.task_read(new.entry)
        if record is None:  # the id was taken, by an old task that the purge has just removed
            started = yield from tasks.task_start(new)
            record = yield from self._read(tasks, new.entry)
        if record.start_digest != new.start_digest:
            raise TaskExists(f"the id {new.entry.key!r} belongs to a task with another definition or initial state")
        if started and hints:
            yield from tasks.task_after_commit(lambda: self._hint(store, tasks, record))
        return record

    def _hint(self, store: Store, tasks: TaskPrimitives, record: TaskRecord) -> None:
        if not dispatch.send(store.alias, store.names, record.key, queue=self.queue):
            tasks.task_unnotify(record.id).run()

    # -- look, drive, cancel ------------------------------------------------------------------------------------------

    def _get(self, task_id: str, *, namespace: Names = ()) -> Flow[TaskHandle[S]]:
        """Return the task as it is now; ``TaskNotFound`` where there is none of this definition."""
        _, tasks, entry = self._place(namespace, task_id)
        record = yield from self._read(tasks, entry)
        if record.definition != self.id:
            raise TaskNotFound(f"the task {task_id!r} is not one of {self.id!r}")
        return self._handle(entry, namespace, record)

    def _run(self, task_id: str, *, namespace: Names = (), app: Any = None) -> Flow[TaskHandle[S]]:
        """Drive the task here and now until it ends, waits, is parked, or fails; return it as it is then.

        A step's exception is raised once it is recorded. ``TaskBusy``: a living worker holds it. ``TaskMismatch``: this
        code cannot continue it. ``LeaseLost``: another worker took over. Not inside an open transaction.
        """
        store, tasks, entry = self._place(namespace, task_id)
        return self._handle(entry, namespace, (yield from Drive(self, store, tasks, entry, app=app).run()))

    def _cancel(
        self, task_id: str, reason: str = "cancelled", *, namespace: Names = (), sender: str = ""
    ) -> Flow[TaskHandle[S]]:
        """Ask for the task to be cancelled, for ``reason``, by ``sender``; return it as it is then.

        A task that nobody holds ends at once. A running step goes on; the task ends with its save, which keeps the
        result, unless that was the last step. Inside a transaction it is asked when that commits. ``TaskFinished`` and
        ``TaskNotFound`` say that there is nothing to cancel.
        """
        _, tasks, entry = self._place(namespace, task_id)
        because = clean(reason, 500)
        if not because:
            raise InvalidArgument("reason is empty: say why the task is cancelled")
        if (yield from tasks.task_deferred(lambda: flow.run(self._cancelled(tasks, entry, because, sender)))):
            return self._handle(entry, namespace, (yield from self._read(tasks, entry)))
        yield from self._cancelled(tasks, entry, because, sender)
        return self._handle(entry, namespace, (yield from self._read(tasks, entry)))

    def _cancelled(self, tasks: TaskPrimitives, entry: Entry, reason: str, sender: str) -> Flow[None]:
        asked = yield from tasks.task_request_cancel(entry, reason, clean(sender, 200))
        if asked == "refused":
            yield from self._read(tasks, entry)
            raise TaskFinished(f"the task {entry.key!r} has ended already")
        if asked == "applied":
            yield from end_if_free(tasks, entry, self.step_name)
        elif (yield from tasks.task_hints()):
            yield from tasks.task_after_commit(lambda: flow.run(self._apply(tasks, entry)))

    def _apply(self, tasks: TaskPrimitives, entry: Entry) -> Flow[None]:
        yield from tasks.task_apply_requests(entry)
        yield from end_if_free(tasks, entry, self.step_name)

    start, astart = both(_start)
    get, aget = both(_get)
    run, arun = both(_run)
    cancel, acancel = both(_cancel)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def plain(self, payload: str | None) -> Any:
        """Return the plain value of a state's payload, without judging it."""
        return None if payload is None else codec.loads(payload)

    def _place(self, namespace: Names, task_id: str) -> tuple[Store, TaskPrimitives, Entry]:
        store = stores[self.store_alias].namespace(*namespace)
        return store, engine_of(store), store.durable.entry(task_id)

    def _read(self, tasks: TaskPrimitives, entry: Entry) -> Flow[TaskRecord]:
        record = yield from tasks.task_read(entry)
        if record is None:
            raise TaskNotFound(f"there is no task {entry.key!r} in this namespace")
        return record

    def _handle(self, entry: Entry, namespace: Names, record: TaskRecord) -> TaskHandle[S]:
        return TaskHandle(entry.key, tuple(namespace), self, record)


def engine_of(store: Store) -> TaskPrimitives:
    """Return the primitives of a store that can carry the engine, or raise ``NotSupported``."""
    if not isinstance(store.backend, TaskPrimitives):
        raise NotSupported(
            f"the store {store.alias!r} ({type(store.backend).__name__}) cannot run durable tasks: "
            "use one on a database, or in memory"
        )
    return store.backend


def _expected(new: NewTask) -> TaskRecord:
    """Return the row that a deferred start will write, as far as it is known."""
    now = datetime.now(UTC)
    return TaskRecord(
        id=0,
        namespace=new.entry.namespace,
        key=new.entry.key,
        driven=True,
        definition=new.definition,
        revision=new.revision,
        fingerprint=new.fingerprint,
        start_digest=new.start_digest,
        status="ready",
        step_index=0,
        turn=1,
        attempts=0,
        max_attempts=new.max_attempts,
        deadline=now + timedelta(milliseconds=new.deadline),
        max_calls=new.max_calls,
        reserved_calls=0,
        max_calls_per_attempt=new.max_calls_per_attempt,
        reason="",
        save_seq=0,
        fence=0,
        claims=0,
        worker="",
        wake_at=now,
        resume_at=None,
        cancel_requested=None,
        progress=None,
        progress_text="",
        last_error="",
        created_at=now,
        finished_at=None,
        state=new.state,
        saved_attempts=0,
        saved_by="",
        now=now,
    )
