"""What a worker without Celery does: sweep, purge, and drive the due tasks itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.db import close_old_connections

from .. import conf
from ..contracts.tasks import TaskPrimitives
from ..durable.registry import known_fingerprints
from ..exceptions import StateStoreError
from ..keys import decode_namespace
from .purge import purge
from .resume import resume
from .sweep import sweep, task_stores

logger = logging.getLogger("django_statestore.work")

BATCH = 20
PURGE_EVERY = 600.0


def drive_due(alias: str | None, stopping: Callable[[], bool], enough: Callable[[], bool] = bool) -> int:
    """Drive each due task that this code knows for one slice, those due longest first; return how many were tried.

    ``enough`` is asked after each: no other one is begun then.
    """
    fingerprints, tried = list(known_fingerprints()), 0
    for store in task_stores():
        if alias not in (None, store.alias):
            continue
        assert isinstance(store.backend, TaskPrimitives)
        for due in store.backend.tasks_due(fingerprints, BATCH).run():
            if stopping() or (tried and enough()):
                return tried
            resume(store.alias, decode_namespace(due.namespace), due.key, stopping=stopping)
            tried += 1
    return tried


class Worker:
    """Go round: drive what is due, sweep and purge when it is time for it, and rest when there is nothing to do."""

    def __init__(self, alias: str | None, stopping: Callable[[], bool], rest: Callable[[float], object]) -> None:
        self._alias, self._stopping, self._rest = alias, stopping, rest
        self._sweep_at = self._purge_at = 0.0

    def run(self, poll: float, *, until_idle: bool = False) -> None:
        """Work until told to stop, looking every ``poll`` seconds; ``until_idle``: or until nothing is due."""
        while not self._stopping():
            self._maintain()
            try:
                tried = drive_due(self._alias, self._stopping, self._sweep_is_due)
            except StateStoreError as error:
                if until_idle:
                    raise
                logger.error("the due tasks could not be read: %s", error)
                tried = 0
            close_old_connections()
            if not tried:
                if until_idle:
                    return
                self._rest(poll)

    def _sweep_is_due(self) -> bool:
        return time.monotonic() >= self._sweep_at

    def _maintain(self) -> None:
        now = time.monotonic()
        if self._sweep_is_due():
            self._sweep_at = now + conf.get().sweep_every / 1000
            sweep(self._alias)
        if now >= self._purge_at:
            self._purge_at = now + PURGE_EVERY
            purge(self._alias, seconds=60)
