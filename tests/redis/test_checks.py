"""The system checks of a Redis store, each on a server that is configured that way."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import redis
from django.core import checks
from django.core.management import call_command
from django.test import override_settings

from django_statestore import stores
from tests.servers import valkey
from tests.servers.cluster import Cluster

from .proxy import Proxy

REDIS = "django_redis.cache.RedisCache"
STORE = "django_statestore.backends.redis.RedisBackend"


@contextmanager
def settings_of(caches: dict[str, Any], **options: Any) -> Iterator[None]:
    configured = {
        "default": {"BACKEND": "django_statestore.backends.database.DatabaseBackend"},
        "fast": {"BACKEND": STORE, "OPTIONS": options},
    }
    local: dict[str, Any] = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    with override_settings(CACHES=local | caches, STATESTORES=configured):
        yield
        backend: Any = stores["fast"].backend
        backend.close()


def said(*, of_server: bool = False) -> dict[str | None, checks.CheckMessage]:
    """Return what the checks say of the store: of its settings, or of its server."""
    tags = [checks.Tags.database] if of_server else ["statestore"]
    found = checks.run_checks(tags=tags, databases=["default"] if of_server else None)
    return {message.id: message for message in found if "'fast'" in message.msg or "'state'" in message.msg}


# -- settings: no server is asked, there is none ----------------------------------------------------------------------


def cache(url: str, **options: Any) -> dict[str, Any]:
    return {"BACKEND": REDIS, "LOCATION": url, "OPTIONS": options}


def test_an_alias_of_its_own_is_as_it_should_be() -> None:
    caches = {"state": cache("redis://127.0.0.1:9/1"), "other": cache("redis://127.0.0.1:9/2")}
    with settings_of(caches, cache="state"):
        assert said() == {}
    with settings_of(caches, location="redis://127.0.0.1:9/3"):
        assert said() == {}


def test_the_default_cache() -> None:
    with settings_of({"default": cache("redis://127.0.0.1:9/1")}, cache="default"):
        assert set(said()) == {"statestore.W010"}
        assert "FLUSHDB" in said()["statestore.W010"].msg
        assert "cache alias for the state alone" in str(said()["statestore.W010"].hint)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("redis://127.0.0.1:9/1", "redis://127.0.0.1:9/1", True),
        ("redis://127.0.0.1:9", "redis://localhost:9/0", True),
        ("redis://:secret@127.0.0.1:9/1", "redis://127.0.0.1:9?db=1", True),
        ("redis://state.example", "redis://STATE.example:6379/0", True),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1", True),
        ("redis://127.0.0.1:9/1", ["redis://127.0.0.1:8/1", "redis://127.0.0.1:9/1"], True),
        ("redis://127.0.0.1:9/1", "redis://127.0.0.1:8/1,redis://127.0.0.1:9/1", True),
        ("redis://127.0.0.1:9/1", "redis://127.0.0.1:9/2", False),
        ("redis://127.0.0.1:9/1", "redis://127.0.0.1:8/1", False),
        ("unix:///run/redis.sock", "unix:///run/redis.sock?db=1", False),
        ("redis://127.0.0.1:9/1", "127.0.0.1:11211", False),
    ],
)
def test_a_database_that_another_cache_uses_too(one: str, other: Any, shared: bool) -> None:
    for options in ({"cache": "state"}, {"location": one}):
        caches = {"other": cache(other)} | ({"state": cache(one)} if "cache" in options else {})
        with settings_of(caches, **options):
            assert set(said()) == ({"statestore.W011"} if shared else set())
            for message in said().values():
                assert "CACHES['other']" in message.msg
                assert "secret" not in message.msg


def test_djangos_own_redis_cache_counts_too() -> None:
    other = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:9",
             "OPTIONS": {"db": 1}}  # fmt: skip
    with settings_of({"other": other}, location="redis://127.0.0.1:9/1"):
        assert set(said()) == {"statestore.W011"}


@pytest.mark.parametrize(
    "alias",
    [
        cache("redis://127.0.0.1:9/1", CONNECTION_POOL_KWARGS={"retry_on_timeout": True}),
        cache("redis://127.0.0.1:9/1", CONNECTION_POOL_KWARGS={"retry_on_error": [redis.ConnectionError]}),
        cache("redis://127.0.0.1:9/1", CONNECTION_POOL_KWARGS={"retry": object()}),
        cache("redis://127.0.0.1:9/1?retry_on_timeout=true"),
    ],
    ids=["retry_on_timeout", "retry_on_error", "retry", "in-the-url"],
)
def test_retries_of_the_alias(alias: dict[str, Any], request: pytest.FixtureRequest) -> None:
    with settings_of({"state": alias}, cache="state"):
        assert set(said()) == {"statestore.W012"}
        named = request.node.callspec.id
        assert ("retry_on_timeout" if named == "in-the-url" else named) in said()["statestore.W012"].msg


# -- the server -------------------------------------------------------------------------------------------------------


@contextmanager
def on_server(*options: str) -> Iterator[str]:
    try:
        valkey.find_binary()
    except valkey.Unavailable as reason:
        pytest.skip(str(reason))
    running = valkey.Server(*options)
    try:
        with settings_of({}, location=running.url):
            yield running.url
    finally:
        running.stop()


def test_a_server_as_it_should_be() -> None:
    with on_server("--maxmemory", "100mb", "--maxmemory-policy", "noeviction"):
        assert said() == {}
        assert said(of_server=True) == {}


def test_a_server_that_evicts() -> None:
    with on_server("--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"):
        found = said(of_server=True)
        assert set(found) == {"statestore.W014"}
        assert "volatile-lru" in found["statestore.W014"].msg
        assert "noeviction" in str(found["statestore.W014"].hint)
    with on_server("--maxmemory-policy", "allkeys-lru"):  # without a limit nothing is evicted
        assert said(of_server=True) == {}


def test_a_server_without_a_log() -> None:
    with on_server("--appendonly", "no"):
        assert set(said(of_server=True)) == {"statestore.W015"}
    with on_server("--appendfsync", "everysec"):
        found = said(of_server=True)
        assert set(found) == {"statestore.I010"}
        assert found["statestore.I010"].level == checks.INFO
        assert "everysec" in found["statestore.I010"].msg


def test_a_server_that_hides_its_configuration() -> None:
    with on_server("--rename-command", "CONFIG", "", "--appendfsync", "everysec", "--maxmemory", "9mb",
                   "--maxmemory-policy", "allkeys-lru"):  # fmt: skip
        assert set(said(of_server=True)) == {"statestore.W014"}


class Older(Proxy):
    """Have the server say that it is an older one; there is no such binary for today's systems."""

    def _answers(self, client: Any, server: Any) -> None:
        while data := server.recv(1 << 20):
            client.sendall(data.replace(b"redis_version:7.2.4", b"redis_version:6.0.9"))


def test_a_server_that_is_too_old(url: str, tmp_path: Any) -> None:
    proxy = Older(tmp_path / "proxy.sock", url)
    with ExitStack() as stack:
        stack.callback(proxy.close)
        with redis.Redis.from_url(url) as client:
            if client.info()["redis_version"] != "7.2.4":
                pytest.skip("the server is not the one of the wheel")
        stack.enter_context(settings_of({}, location=proxy.url))
        found = said(of_server=True)
        assert set(found) == {"statestore.E010"}
        assert "6.0.9" in found["statestore.E010"].msg


def test_a_server_that_is_not_there_is_no_error() -> None:
    with settings_of({}, location="redis://:secret@127.0.0.1:9/0"):
        assert said() == {}
        found = said(of_server=True)
        assert set(found) == {"statestore.W013"}
        assert "cannot be reached" in found["statestore.W013"].msg
        assert "secret" not in found["statestore.W013"].msg


def test_a_server_that_refuses_us_is_an_error() -> None:
    with on_server("--requirepass", "word"):
        found = said(of_server=True)
        assert set(found) == {"statestore.E005"}
        assert "asks for a password" in found["statestore.E005"].msg


def test_every_node_of_a_cluster_is_asked(cluster: Cluster) -> None:
    with settings_of({}, location=cluster.url, cluster=True):
        assert said(of_server=True) == {}
        last = cluster.nodes[-1].raw
        last.config_set("maxmemory", "100mb")
        last.config_set("maxmemory-policy", "allkeys-lfu")
        try:
            assert set(said(of_server=True)) == {"statestore.W014"}
        finally:
            last.config_set("maxmemory", 0)
            last.config_set("maxmemory-policy", "noeviction")


def test_the_server_is_asked_by_the_command_only_with_a_database() -> None:
    output = io.StringIO()
    with on_server("--appendonly", "no"):
        call_command("check", stdout=output, stderr=output)
        assert "W015" not in output.getvalue()
        call_command("check", databases=["default"], stdout=output, stderr=output)
        assert "W015" in output.getvalue()
