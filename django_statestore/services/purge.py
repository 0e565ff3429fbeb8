"""The purge: remove what has expired, in short batches, safe to run twice at once and to be killed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from .. import conf, stores
from ..contracts.base import ListingPrimitives
from ..contracts.lists import ListPrimitives
from ..contracts.queue import QueuePrimitives
from ..contracts.spool import SpoolPrimitives
from ..contracts.tasks import TaskPrimitives
from ..exceptions import StateStoreError
from ..store import Store

logger = logging.getLogger("django_statestore.purge")

BATCH = 500

Batch: TypeAlias = Callable[[int], int]

FACETS = ("kv", "lock", "dedup", "handoff")


def batches_of(store: Store) -> Iterator[tuple[str, Batch]]:
    """Yield what there is to purge in a store: its name, and the call that removes one batch and counts it."""
    backend, settings = store.backend, conf.get()
    if isinstance(backend, ListingPrimitives):
        for facet in FACETS:
            yield facet, lambda limit, facet=facet: backend.entries_purge(facet, limit).run()  # type: ignore[misc]
    if isinstance(backend, ListPrimitives):
        yield "list", lambda limit: backend.list_purge(limit).run()
    if isinstance(backend, QueuePrimitives):
        yield "queue", lambda limit: backend.queue_purge(limit).run()
    if isinstance(backend, SpoolPrimitives):
        yield "spool uploads", lambda limit: backend.spool_purge_writing(limit).run()
        yield "spool", lambda limit: backend.spool_purge_dropped(settings.spool_grace, limit).run()
    if isinstance(backend, TaskPrimitives):
        yield "tasks", lambda limit: backend.tasks_purge(settings.retain_finished, limit).run()


def purge(
    alias: str | None = None,
    *,
    batch_size: int = BATCH,
    seconds: float | None = None,
    progress: Callable[[str, str, int], None] | None = None,
) -> dict[str, int]:
    """Purge one store, or all of them, and return how many of each kind went.

    ``seconds`` ends it early, between two batches; the next run goes on. ``progress(alias, kind, total)`` is called
    after each batch. A store that fails is logged and does not stop the others.
    """
    totals: dict[str, int] = {}
    until = None if seconds is None else time.monotonic() + seconds
    for store in stores.all():
        if alias in (None, store.alias):
            try:
                _purge(store, totals, batch_size, until, progress)
            except StateStoreError as error:
                logger.error("the purge of a store failed: %s", error, extra={"store": store.alias})
    return totals


def _purge(
    store: Store,
    totals: dict[str, int],
    batch_size: int,
    until: float | None,
    progress: Callable[[str, str, int], None] | None,
) -> None:
    backend = store.backend
    jobs = backend if isinstance(backend, TaskPrimitives) else None
    if jobs:
        jobs.job_started("purge").run()
    for kind, batch in batches_of(store):
        gone = batch_size
        while gone >= batch_size and (until is None or time.monotonic() < until):
            gone = batch(batch_size)
            totals[kind] = totals.get(kind, 0) + gone
            if gone and progress:
                progress(store.alias, kind, totals[kind])
    if jobs:
        jobs.job_succeeded("purge").run()
