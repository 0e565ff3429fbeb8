"""The pytest plugin: stores for the tests of a project. It comes with the package; settings are read on its use."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..store import Store


@pytest.fixture
def statestore() -> Iterator[Store]:
    """Return an empty store in memory that is ``default`` for this test, also to the code under test.

    It needs no database, and what it holds is gone after the test. The other aliases stay as the settings have them.
    """
    from django.test import override_settings

    from .. import stores

    memory = {"BACKEND": "django_statestore.backends.memory.MemoryBackend"}
    with override_settings(STATESTORES={**stores.configuration, "default": memory}):
        yield stores["default"]


@pytest.fixture
def statestore_db(db: None) -> Store:
    """Return ``default`` as the settings have it, in a namespace of this test's own; needs pytest-django.

    Where the store is on another database than ``default``, the test says so: ``@pytest.mark.django_db(databases=…)``.
    """
    from .. import store

    return store.namespace(f"test-{uuid.uuid4().hex}")
