"""The conformance kit on a second server: the Redis that the machine's distribution brings, where it is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import ClassVar

import pytest

from django_statestore import Store
from django_statestore.testing import conformance

URL = os.environ.get("STATESTORE_REDIS7_URL")
if not URL:
    pytest.skip("there is no redis-server on PATH", allow_module_level=True)

from django_statestore.backends.redis import RedisBackend  # noqa: E402


@pytest.mark.django_db
class OnRedisSeven:
    database: ClassVar[str | None] = "default"
    backend: ClassVar[RedisBackend]

    def make(self) -> Store:
        return self.backend.store()

    def again(self, store: Store) -> Store:
        return RedisBackend(location=URL).store().at(store.names)

    @pytest.fixture
    def unreachable(self) -> Store:
        return RedisBackend(location="redis://:hidden@127.0.0.1:9/0").store()


@pytest.fixture(scope="module", autouse=True)
def on_seven() -> Iterator[None]:
    """Make the backend before any case asks for it."""
    OnRedisSeven.backend = RedisBackend(location=URL)
    yield
    OnRedisSeven.backend.close()


globals().update(conformance.tests(OnRedisSeven))
