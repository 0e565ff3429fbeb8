"""The stores on databases, and more aliases of a database for as long as a test needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

DATABASE = "django_statestore.backends.database.DatabaseBackend"
DATABASES = [alias for alias, store in settings.STATESTORES.items() if store["BACKEND"] == DATABASE]
"""Each is the alias of its database too."""


@contextmanager
def another_alias(like: str, **changes: Any) -> Iterator[str]:
    """Define an alias that is like another one but for some of its settings; ``OPTIONS`` are added to its own."""
    name = f"another-{like}"
    settings = connections.settings[like]
    options = {**settings["OPTIONS"], **changes.pop("OPTIONS", {})}
    connections.settings[name] = {**settings, **changes, "OPTIONS": options}
    known_only = BaseDatabaseWrapper.ensure_connection

    def ensure_connection(self: BaseDatabaseWrapper) -> None:
        if self.alias == name and self.connection is None and not self.closed_in_transaction:
            with self.wrap_database_errors:
                self.connect()
        known_only(self)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BaseDatabaseWrapper, "ensure_connection", ensure_connection)  # a test's databases are fixed
            yield name
    finally:
        connections[name].close()
        del connections[name]
        del connections.settings[name]
