"""What the kit is told of a store on a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from django.conf import settings
from django.db import connections

from django_statestore import Store, stores
from django_statestore.backends.database import DatabaseBackend
from tests.aliases import another_alias


def on_database(alias: str, module: str) -> type:
    """Return the class that the kit's classes are mixed with, for the test module of that name."""

    @pytest.mark.django_db(databases="__all__")
    @pytest.mark.skipif(alias not in settings.STATESTORES, reason=f"there is no {alias}")
    class OnDatabase:
        database: ClassVar[str | None] = alias

        def make(self) -> Store:
            return stores[alias]

        def again(self, store: Store) -> Store:
            return DatabaseBackend(database=alias).store().at(store.names)

        def end_thread(self, store: Store) -> None:
            connections.close_all()

        @pytest.fixture
        def unreachable(self, tmp_path: Path) -> Iterator[Store]:
            sqlite = connections[alias].vendor == "sqlite"
            nowhere = tmp_path / "no such folder" / "file"
            changes = {"NAME": nowhere} if sqlite else {"HOST": "127.0.0.1", "PORT": "9", "PASSWORD": "hidden"}
            with another_alias(alias, **changes) as name:
                yield DatabaseBackend(database=name).store()

        @pytest.fixture
        def commits(self, transactional_db: None) -> None:
            """Let the cases that need it commit."""

    OnDatabase.__module__ = module
    return OnDatabase
