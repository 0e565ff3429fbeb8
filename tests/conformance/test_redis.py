"""The conformance kit on Redis, or Valkey."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from django.conf import settings

from django_statestore import Store, stores
from django_statestore.testing import conformance


@pytest.mark.django_db
@pytest.mark.skipif("redis" not in settings.STATESTORES, reason="there is no Redis")
class OnRedis:
    database: ClassVar[str | None] = "default"

    def make(self) -> Store:
        return stores["redis"]

    def again(self, store: Store) -> Store:
        return self._backend(**settings.STATESTORES["redis"]["OPTIONS"]).at(store.names)

    @pytest.fixture
    def unreachable(self) -> Store:
        return self._backend(location="redis://:hidden@127.0.0.1:9/0")

    def _backend(self, **options: Any) -> Store:
        from django_statestore.backends.redis import RedisBackend

        return RedisBackend(**options).store()


globals().update(conformance.tests(OnRedis))
