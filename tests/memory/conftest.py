"""A store in memory, by itself."""

import pytest

from django_statestore import Store
from django_statestore.backends.memory import MemoryBackend


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def here(backend: MemoryBackend) -> Store:
    return backend.store()
