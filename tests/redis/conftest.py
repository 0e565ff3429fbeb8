"""Fixtures for what only Redis shows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings

from django_statestore import Store
from django_statestore.backends.redis import RedisBackend

from .proxy import Proxy


@pytest.fixture
def url() -> str:
    """Return the address of the server of this run."""
    if "redis" not in settings.STATESTORES:
        pytest.skip("there is no redis")
    return str(settings.STATESTORES["redis"]["OPTIONS"]["location"])


@pytest.fixture
def raw(url: str) -> Iterator[redis.Redis]:
    """Return a client of its own, to look at what is stored."""
    with redis.Redis.from_url(url) as client:
        yield client


@pytest.fixture
def prefix() -> str:
    """Return the beginning of all keys of this test."""
    return f"test-{uuid.uuid4().hex[:12]}:"


@pytest.fixture
def backend(url: str, prefix: str) -> Iterator[RedisBackend]:
    backend = RedisBackend(location=url, prefix=prefix)
    yield backend
    backend.close()


@pytest.fixture
def store(backend: RedisBackend) -> Store:
    return backend.store().namespace("here")


@pytest.fixture
def proxy(url: str, tmp_path: Path) -> Iterator[Proxy]:
    """Return a way to the server that can lose what passes."""
    proxy = Proxy(tmp_path / "proxy.sock", url)
    yield proxy
    proxy.close()


@pytest.fixture
def far(proxy: Proxy, prefix: str) -> Iterator[Store]:
    """Return a store whose connections lead over the proxy."""
    backend = RedisBackend(location=proxy.url, prefix=prefix)
    yield backend.store().namespace("here")
    backend.close()
