"""Crash points: kill a process before or after any statement that it sends, and wherever else a test names a point.

Run the code once with ``CrashPoints()`` to learn the points that it passes, then once for each of them in a process of
its own, with ``CrashPoints(kill_at=number)``. Code under test needs no hook: Django shows every statement to a wrapper.
What a transaction wrote is there only after its COMMIT, which is no statement: it lies between two points. So does the
end of a single statement with RETURNING on SQLite, which is done when its rows have been fetched.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeAlias

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_SHOWN = 60  # characters of a statement that a point's name shows


_Execute: TypeAlias = Callable[[str, Any, bool, dict[str, Any]], Any]


class CrashPoints:
    """Number the points that this process passes inside a ``with`` block, and SIGKILL it at one of them.

    ``kill_at`` counts from 0; None: at none. ``where`` is asked, in the thread that passes a point, whether it counts,
    by its name. Statements of every thread and of every connection count, also of those that are opened later.
    """

    def __init__(self, kill_at: int | None = None, where: Callable[[str], bool] | None = None) -> None:
        self.passed: list[str] = []
        """The names of the points so far, in order."""
        self._kill_at, self._where = kill_at, where
        self._counting = threading.Lock()
        self._watched: list[BaseDatabaseWrapper] = []

    def here(self, name: str) -> None:
        """Be a point. A process that is killed here has done all that stands before it, and nothing after it."""
        if self._where is not None and not self._where(name):
            return
        with self._counting:
            if len(self.passed) == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            self.passed.append(name)

    def __enter__(self) -> CrashPoints:
        connection_created.connect(self._opened)
        for connection in connections.all(initialized_only=True):
            self._watch(connection)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        connection_created.disconnect(self._opened)
        for connection in self._watched:
            connection.execute_wrappers.remove(self._around)
        self._watched.clear()

    def _opened(self, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
        self._watch(connection)

    def _watch(self, connection: BaseDatabaseWrapper) -> None:
        if self._around not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._around)
            self._watched.append(connection)

    def _around(self, execute: _Execute, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        name = " ".join(str(sql).split())[:_SHOWN]
        self.here(f"before: {name}")
        result = execute(sql, params, many, context)
        self.here(f"after: {name}")
        return result
