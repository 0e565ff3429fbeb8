"""The run of the conformance kit on the toys, for a process of its own: no database, no other settings, no plugins."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import ClassVar

import django
import pytest
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}, USE_TZ=True, DEBUG=False
)
django.setup()

from django_statestore import Store  # noqa: E402
from django_statestore.backends.memory import MemoryBackend  # noqa: E402
from django_statestore.testing import conformance  # noqa: E402
from django_statestore.testing.conformance.bodies import chunks_of  # noqa: E402

from .expected import BROKEN, SOUND  # noqa: E402
from .toys import Unplugged  # noqa: E402


def hold(backend: type[MemoryBackend], families: Collection[str]) -> dict[str, type]:
    """Return the test classes that hold a toy to some families of rules; one form is enough to see what is broken."""

    class Mine:
        database: ClassVar[str | None] = "default"

        def make(self) -> Store:
            return (MemoryBackend if issubclass(backend, Unplugged) else backend)().store()

        @pytest.fixture
        def call(self) -> conformance.Call:
            return conformance.Call(asynchronous=False)

        @pytest.fixture
        def unreachable(self) -> Store:
            return backend().store()

    class InPieces(Mine):
        @pytest.fixture(autouse=True)
        def chunk_size(self, store: Store) -> Iterator[int]:
            """Write long bodies only: those of one chunk go the same way as any other value."""
            with chunks_of(store, 5):
                yield 5

    chosen = (getattr(conformance, f"{family}Conformance") for family in families)
    made = conformance.tests(InPieces if {"Spool", "Upload"} & {*families} else Mine, *chosen)
    return {f"{name}On{backend.__name__}": each for name, each in made.items()}


for backend, families in [*SOUND.items(), *BROKEN.items()]:
    globals().update(hold(backend, families))
