"""Where a row that the admin shows is kept: in which store, at which namespace."""

from __future__ import annotations

from .. import stores
from ..backends.database import DatabaseBackend
from ..keys import decode_namespace
from ..models import Task
from ..store import Store


def store_of(task: Task) -> Store | None:
    """Return the store that holds the row, at the task's namespace; None where ``STATESTORES`` names none.

    It is on the row's database, and its own namespace is that of the task or above it; of several the nearest.
    """
    names, database = decode_namespace(task.namespace), task._state.db
    backends = [store.backend for store in stores.all()]
    holding = [
        backend
        for backend in backends
        if isinstance(backend, DatabaseBackend)
        and backend.database.alias == database
        and names[: len(backend.names)] == backend.names
    ]
    return max(holding, key=lambda backend: len(backend.names)).store().at(names) if holding else None
