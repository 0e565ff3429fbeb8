"""Drive the durable tasks of a test, without a worker, a broker or a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from .. import flow, stores
from ..contracts.mailbox import DueTask
from ..contracts.taskrecord import TaskRecord
from ..contracts.tasks import TaskPrimitives
from ..durable import dispatch
from ..durable.points import Crashed
from ..durable.registry import definitions, known_fingerprints
from ..durable.task import engine_of
from ..exceptions import TransactionRefused
from ..flow import Action, Flow
from ..keys import Namespace, decode_namespace
from ..services.resume import driven, report
from ..services.sweep import applied
from ..store import Store

DRIVES = 1000
_BATCH = 1000
_NAMED = 10


class NotIdle(AssertionError):
    """Tasks stay due however often they are driven; the message names them."""


def run_until_idle(store: Store | str | None = None, *, drives: int = DRIVES) -> int:
    """Drive every due task of the known definitions, as workers do, until none is due; return how many drives it took.

    ``store``: only what is at or below the namespace of a store, or in the store of an alias; by default the stores of
    all known definitions that this test may use. Requests that still wait for a commit (``signal``, ``cancel`` and
    ``grant`` in a transaction) are applied first. Tasks that sleep, wait, are in back-off or held by another are left:
    let time pass with ``age``.

    It does not matter whether messages are sent or held back, as in a ``TestCase``: none is needed, and the tasks
    driven here send none. What a step raises is recorded on its task and logged, not raised. ``NotIdle``, an
    ``AssertionError``, after ``drives`` drives, or where driving the due tasks changes nothing.
    """
    return flow.run(_run_until_idle(store, drives))


async def arun_until_idle(store: Store | str | None = None, *, drives: int = DRIVES) -> int:
    """Do what ``run_until_idle`` does without blocking the event loop."""
    return await flow.arun(_run_until_idle(store, drives))


def _run_until_idle(wanted: Store | str | None, drives: int) -> Flow[int]:
    rounds = _Rounds(() if not isinstance(wanted, Store) else wanted.names, drives)
    with dispatch.silenced():
        goes_on = True
        while goes_on:
            goes_on = False
            for store in _stores(wanted):
                try:
                    goes_on = (yield from rounds.one(store)) or goes_on
                except (AssertionError, RuntimeError) as error:
                    if wanted is not None or not _forbidden(error):
                        raise
    return rounds.made


def _stores(wanted: Store | str | None) -> Iterator[Store]:
    if isinstance(wanted, Store):
        yield wanted
    elif wanted is not None:
        yield stores[wanted]
    else:
        for alias in dict.fromkeys(definition.store_alias for definition in definitions()):
            if alias in stores and isinstance(stores[alias].backend, TaskPrimitives):
                yield stores[alias]


def _forbidden(error: Exception) -> bool:
    """Return whether Django, or pytest-django, keeps this test from a database: it has no tasks there."""
    django = type(error).__name__ == "DatabaseOperationForbidden"  # of django.test, too much to import for its name
    return django or str(error).startswith("Database access not allowed")


class _Rounds:
    """Go round: apply what waits, and drive each due task once."""

    def __init__(self, below: Namespace, most: int) -> None:
        self.made = 0
        self._below, self._most = below, most
        self._error: Exception | None = None

    def one(self, store: Store) -> Flow[bool]:
        """Return whether there was anything to do."""
        tasks = engine_of(store)
        for waiting in (yield from self._found(partial(tasks.tasks_with_requests, 0))):
            yield from applied(store, waiting)
        due = yield from self._found(partial(tasks.tasks_due, list(known_fingerprints())))
        changed = False
        for task in due:
            if self.made >= self._most:
                raise self._not_idle(due, "it is driven again and again: does a step repeat for ever?")
            self.made += 1
            changed = (yield from self._driven(store, tasks, task)) or changed
        if due and not changed:
            error = f" ({type(self._error).__name__})" if self._error else ""
            raise self._not_idle(due, f"driving it changes nothing{error}") from self._error
        return bool(due)

    def _found(self, find: Callable[[int], Action[list[DueTask]]]) -> Flow[list[DueTask]]:
        """Return what is found at or below the namespace; what lies elsewhere hides nothing."""
        limit = _BATCH
        while True:
            every = yield from find(limit)
            found = [task for task in every if decode_namespace(task.namespace)[: len(self._below)] == self._below]
            if found or len(every) < limit:
                return found
            limit *= 10

    def _driven(self, store: Store, tasks: TaskPrimitives, task: DueTask) -> Flow[bool]:
        """Drive one task for one slice; return whether its row has changed."""
        there = store.at(decode_namespace(task.namespace))
        entry = there.durable.entry(task.key)
        before = yield from tasks.task_read(entry)
        try:
            yield from driven(there, task.key)
        except TransactionRefused:
            raise
        except Crashed:
            pass  # this worker is dead; the next one goes on with the other tasks
        except Exception as error:
            self._error = error
            report(there, task.key, error)
        return _version(before) != _version((yield from tasks.task_read(entry)))

    def _not_idle(self, due: list[DueTask], why: str) -> NotIdle:
        known = known_fingerprints()
        names = [f"{known[task.fingerprint].id} {task.key!r}" for task in due[:_NAMED]]
        more = f" and {len(due) - _NAMED} more" if len(due) > _NAMED else ""
        return NotIdle(f"still due after {self.made} drives: {', '.join(names)}{more}; {why}")


def _version(record: TaskRecord | None) -> object:
    return record and (record.fence, record.save_seq, record.status, record.reason, record.wake_at)
