"""Where a machine runs: on a database, whose rows it looks at too, in memory, or on Redis."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import transaction

from django_statestore import Store, stores
from django_statestore.backends.memory import MemoryBackend
from tests.aliases import DATABASES


class Ground:
    """Give each example a store of its own, and leave nothing of it behind."""

    tabular: ClassVar[bool] = False
    """Whether there are rows to look at."""
    purges_itself: ClassVar[bool] = False
    """Whether what a purge would take may go without one as soon as its time is over."""

    def __init__(self, name: str) -> None:
        self.name = name

    def begin(self) -> Store:
        """Return an empty store."""
        raise NotImplementedError

    def end(self) -> None:
        """Leave nothing to the next example."""


class DatabaseGround(Ground):
    tabular = True

    def begin(self) -> Store:
        # An example leaves nothing behind, not even the transaction that a database error has broken.
        create = getattr(transaction, "savepoint_create", transaction.savepoint)  # its name from Django 6.1 on
        self._savepoint = create(using=self.name)
        return stores[self.name].namespace(f"machine-{uuid.uuid4().hex[:12]}")

    def end(self) -> None:
        transaction.savepoint_rollback(self._savepoint, using=self.name)


class MemoryGround(Ground):
    purges_itself = True

    def begin(self) -> Store:
        return MemoryBackend().store()


class ServerGround(Ground):
    """What an example leaves on the server of the tests goes with the server."""

    purges_itself = True

    def begin(self) -> Store:
        return stores[self.name].namespace(f"machine-{uuid.uuid4().hex[:12]}")


GROUNDS: list[Ground] = [
    *map(DatabaseGround, DATABASES),
    MemoryGround("memory"),
    *(ServerGround(alias) for alias in settings.STATESTORES if alias not in DATABASES),
]
