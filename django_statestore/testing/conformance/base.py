"""What the classes of the kit have in common, and what a user of it overrides."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from ...renewer import RenewingBackend
from ...services.purge import batches_of
from ...store import Store
from ...ttl import Duration
from ..time import age
from .calling import Call


class Conformance:
    """Be the base of every class of the kit. A user mixes in a class with ``make``, and more where it says so."""

    database: ClassVar[str | None] = None
    """The alias in ``DATABASES`` on which cases may open transactions: for a backend on a database, its own."""

    def make(self) -> Store:
        """Return a store of the backend under test. Every case works in a namespace of its own below it."""
        raise NotImplementedError(f"{type(self).__name__} must define make(self), which returns a store to be tested")

    def again(self, store: Store) -> Store:
        """Return ``store`` by a second backend object on the same storage, as another process would make it."""
        made = self.make()
        if made.backend is store.backend:
            pytest.fail("make() gives one and the same backend: override again(), which makes another on its storage")
        return made.at(store.names)

    def end_thread(self, store: Store) -> None:
        """Let go of what the current thread, which ends now, holds open for the store."""
        if isinstance(store.backend, RenewingBackend):
            store.backend.release_thread()

    def finish(self, store: Store) -> None:
        """Clean up after a case, if it is worth the while: its namespace is not used again."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        """Return a store in a namespace that no other case uses."""
        store = self.make().namespace(f"conformance-{uuid.uuid4().hex[:12]}")
        yield store
        self.finish(store)

    @pytest.fixture(params=[False, True], ids=["sync", "async"])
    def call(self, request: pytest.FixtureRequest) -> Call:
        return Call(asynchronous=request.param)

    @pytest.fixture
    def unreachable(self) -> Store | None:
        """Return a store whose storage cannot be reached; None: that cannot be, and its cases are skipped."""
        return None

    @pytest.fixture
    def commits(self) -> None:
        """Be asked for by cases with threads or transactions: what they write must be committed.

        For a backend on a database override it with one that asks for pytest-django's ``transactional_db``.
        """


def later(store: Store, seconds: Duration) -> None:
    """Let so much time pass in the namespace of ``store``, without waiting."""
    age(store, seconds)


def purge(store: Store) -> int:
    """Remove whatever has expired, in all namespaces of the backend; return how much it was."""
    gone = 0
    for _, batch in batches_of(store):
        while count := batch(500):
            gone += count
            if count < 500:
                break
    return gone


def eventually(condition: Callable[[], Any]) -> None:
    """Wait for what another thread brings about."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.005)
