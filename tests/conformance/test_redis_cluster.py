"""The conformance kit on a cluster of three nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from django_statestore import Store
from django_statestore.testing import conformance

pytest.importorskip("redis")

from django_statestore.backends.redis import RedisBackend
from tests.servers.cluster import Cluster


@pytest.mark.django_db
class OnCluster:
    database: ClassVar[str | None] = "default"
    backend: ClassVar[RedisBackend]

    def make(self) -> Store:
        return self.backend.store()

    def again(self, store: Store) -> Store:
        return RedisBackend(location=self.backend.location.url, cluster=True).store().at(store.names)

    @pytest.fixture
    def unreachable(self) -> Store:
        return RedisBackend(location="redis://:hidden@127.0.0.1:9/0", cluster=True).store()


@pytest.fixture(scope="module", autouse=True)
def on_cluster(cluster: Cluster) -> Iterator[None]:
    """Make the backend before any case asks for it."""
    OnCluster.backend = RedisBackend(location=cluster.url, cluster=True)
    yield
    OnCluster.backend.close()


globals().update(conformance.tests(OnCluster))
