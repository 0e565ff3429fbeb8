"""The conformance kit on memory."""

from typing import ClassVar

import pytest

from django_statestore import Store
from django_statestore.backends.memory import MemoryBackend
from django_statestore.testing import conformance


@pytest.mark.django_db
class InMemory:
    database: ClassVar[str | None] = "default"

    def make(self) -> Store:
        return MemoryBackend().store()


globals().update(conformance.tests(InMemory))
