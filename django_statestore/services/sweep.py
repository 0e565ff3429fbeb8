"""The sweep: find the tasks that are due and that no message is on its way to, and send one.

It never runs a task. Two sweeps at once are harmless: whoever marks a row sends its message. A backed-up broker is not
flooded: a row that was messaged is left alone for ``NOTIFY_GRACE``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from .. import conf, flow, stores
from ..contracts.mailbox import DueTask
from ..contracts.tasks import TaskPrimitives
from ..durable import dispatch, events
from ..durable.definition import Definition
from ..durable.ending import end_if_free
from ..durable.place import Place
from ..durable.registry import find_definition, known_fingerprints
from ..durable.requests import apply_requests
from ..durable.task import engine_of
from ..exceptions import StateStoreError
from ..flow import Flow
from ..keys import decode_namespace
from ..store import Store

logger = logging.getLogger("django_statestore.sweep")

BATCH = 200
_BATCHES = 500
_APPLY_AFTER = 1000
"""Milliseconds that the commit of a request's own transaction has for applying it."""


@dataclass(slots=True)
class Swept:
    """Count what a sweep did."""

    notified: int = 0
    failed: int = 0
    """Messages that could not be sent; their tasks stay due."""
    applied: int = 0
    revived: int = 0
    parked: int = 0


def task_stores() -> list[Store]:
    """Return the stores that can carry the engine."""
    return [store for store in stores.all() if isinstance(store.backend, TaskPrimitives)]


def sweep(alias: str | None = None) -> Swept:
    """Sweep one store, or all of them; one that fails is logged and does not stop the others."""
    swept = Swept()
    for store in task_stores():
        if alias in (None, store.alias):
            try:
                _sweep(store, store.backend, swept)  # type: ignore[arg-type]
            except StateStoreError as error:
                logger.error("the sweep of a store failed: %s", error, extra={"store": store.alias})
    return swept


def _sweep(store: Store, tasks: TaskPrimitives, swept: Swept) -> None:
    settings, known = conf.get(), known_fingerprints()
    fingerprints = list(known)
    tasks.job_started("sweep").run()
    _apply(store, tasks, swept)
    swept.revived += tasks.tasks_revive(fingerprints).run()
    if dispatch.active(store.alias):
        dispatch.try_again()
        for _ in range(_BATCHES):
            batch = tasks.tasks_notify(fingerprints, settings.notify_grace, BATCH).run()
            for due in batch:
                _notify(store, tasks, due, known[due.fingerprint], swept)
            if len(batch) < BATCH or swept.failed:
                break
    for due in tasks.tasks_diverge(fingerprints, settings.mismatch_grace).run():
        swept.parked += 1
        _announce(store, tasks, due)
    tasks.job_succeeded("sweep").run()


def _apply(store: Store, tasks: TaskPrimitives, swept: Swept) -> None:
    """Apply what nobody has; one bad row never stops this, and a batch of them hides no other."""
    after = 0
    while batch := tasks.tasks_with_requests(_APPLY_AFTER, BATCH, after).run():
        for due in batch:
            try:
                flow.run(applied(store, due))
            except Exception as error:
                logger.error(
                    "a request could not be applied: %s",
                    type(error).__name__,
                    extra={"store": store.alias, "task_id": due.key},
                )
            else:
                swept.applied += 1
        after = batch[-1].id


def applied(store: Store, due: DueTask) -> Flow[None]:
    """Apply the requests that wait in a task's mailbox, and do what they call for at once."""
    there = store.at(decode_namespace(due.namespace))
    definition = known_fingerprints().get(due.fingerprint)
    yield from apply_requests(Place(there, engine_of(there), there.durable.entry(due.key), definition))


def _announce(store: Store, tasks: TaskPrimitives, due: DueTask) -> None:
    """Tell that the sweep has parked a task; one that was asked to end does so, which takes no code of its own."""
    there = store.at(decode_namespace(due.namespace))
    entry = there.durable.entry(due.key)
    record = tasks.task_read(entry).run()
    if record is not None and record.cancel_requested is not None:
        flow.run(end_if_free(Place(there, tasks, entry, find_definition(record.definition))))
    elif record is not None and record.parked:
        events.task_parked(find_definition(record.definition), there, record).run()


def _notify(store: Store, tasks: TaskPrimitives, due: DueTask, definition: Definition[Any], swept: Swept) -> None:
    there = store.at(decode_namespace(due.namespace))
    if Place(there, tasks, there.durable.entry(due.key), definition).send(due.id):
        swept.notified += 1
    else:
        swept.failed += 1
