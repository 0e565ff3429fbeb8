"""A lost answer on each kind of client: a write is done once and told as unknown, a read is asked for again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync
from django.test import override_settings
from redis.backoff import ExponentialBackoff
from redis.crc import key_slot
from redis.retry import Retry

from django_statestore import Store
from django_statestore.backends.redis import RedisBackend
from django_statestore.backends.redis.cluster import ClusterServer
from django_statestore.backends.redis.node import Node
from django_statestore.exceptions import OutcomeUnknown
from tests.servers.cluster import Cluster
from tests.servers.cluster import Node as ClusterNode

from .proxy import Loss, Proxy
from .test_durable import START

EAGER: dict[str, Any] = {
    "retry": Retry(ExponentialBackoff(base=0.001), 5),
    "retry_on_timeout": True,
    "retry_on_error": [redis.ConnectionError, redis.TimeoutError],
}
"""What makes redis-py repeat whatever fails."""


class Way:
    """A store whose connections lead over a proxy, and one on the same server whose connections do not."""

    def __init__(self, far: RedisBackend, near: RedisBackend, proxy: Proxy, key: str) -> None:
        self.backend, self.proxy, self.key = far, proxy, key
        self.far, self.near = far.store().namespace("here"), near.store().namespace("here")

    def lose(self, loss: Loss, asynchronous: bool, operation: Callable[[Store], tuple[Any, ...]]) -> Any:
        """Do an operation over a connection that is open already, and lose one message of it."""
        method, *arguments = operation(self.far)

        async def main() -> Any:
            await self.far.kv.aget(self.key)
            self.proxy.lose = [loss]
            return await getattr(method.__self__, f"a{method.__name__}")(*arguments)

        if asynchronous:
            return async_to_sync(main)()
        self.far.kv.get(self.key)
        self.proxy.lose = [loss]
        return method(*arguments)


def by_alias(proxy: Proxy, prefix: str, **options: Any) -> RedisBackend:
    cache = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": proxy.url, "OPTIONS": options}
    with override_settings(CACHES={"state": cache}):
        return RedisBackend(cache="state", prefix=prefix)


CLIENTS: dict[str, Callable[[Proxy, str], RedisBackend]] = {
    "url": lambda proxy, prefix: RedisBackend(location=proxy.url, prefix=prefix),
    "url with retries": lambda proxy, prefix: RedisBackend(
        location=f"{proxy.url}?retry_on_timeout=true", prefix=prefix
    ),
    "django-redis alias": by_alias,
    "django-redis alias with retries": lambda proxy, prefix: by_alias(
        proxy, prefix, CONNECTION_POOL_KWARGS=EAGER, IGNORE_EXCEPTIONS=True
    ),
}


@pytest.fixture(params=[*CLIENTS, "cluster"])
def way(request: pytest.FixtureRequest, backend: RedisBackend, proxy: Proxy, prefix: str) -> Iterator[Way]:
    if request.param != "cluster":
        far = CLIENTS[request.param](proxy, prefix)
        yield Way(far, backend, proxy, "k")
        far.close()
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    near = RedisBackend(location=cluster.url, cluster=True, prefix=prefix)
    far = RedisBackend(location=cluster.url, cluster=True, prefix=prefix)
    node = cluster.nodes[0]
    detour = Proxy(None, node.url)
    lead_over(far, node.port, detour)
    way = Way(far, near, detour, "")
    way.key = next(key for key in map(str, range(1000)) if served_by(way, key, node))
    yield way
    far.close()
    near.close()
    detour.close()


def lead_over(backend: RedisBackend, port: int, proxy: Proxy) -> None:
    """Have the connections to one node of the cluster lead over a proxy."""
    server = backend.server
    assert isinstance(server, ClusterServer)
    node = Node(backend.location, host="127.0.0.1", port=proxy.port)
    server._nodes["127.0.0.1", port] = server._seed = node
    server._hosts[node] = "127.0.0.1"


def served_by(way: Way, key: str, node: ClusterNode) -> bool:
    """Return whether a node serves the entries of that key."""
    slot = key_slot(way.backend.key("kv", way.far.kv._entry(key)))
    return any(start <= slot <= end and primary[2].decode() == node.id for start, end, primary, *_ in node.ask("SLOTS"))


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize(("loss", "times"), [("answer", 1), ("request", 0)])
def test_a_write_is_done_once_or_not_at_all(way: Way, asynchronous: bool, loss: Loss, times: int) -> None:
    key = way.key
    way.near.list.append(key, 0)  # so that the server knows the scripts
    way.near.list.delete(key)
    way.near.queue.enqueue(key, 0)
    way.near.queue.dequeue(key)
    with pytest.raises(OutcomeUnknown, match="may or may not have taken effect"):
        way.lose(loss, asynchronous, lambda store: (store.list.append, key, "one"))
    assert way.near.list.range(key) == ["one"] * times
    with pytest.raises(OutcomeUnknown):
        way.lose(loss, asynchronous, lambda store: (store.queue.enqueue, key, "one"))
    assert way.near.queue.depth(key) == times
    for number in range(3):
        way.near.queue.enqueue(key, number)
    with pytest.raises(OutcomeUnknown):
        way.lose(loss, asynchronous, lambda store: (store.queue.dequeue, key))
    assert way.near.queue.depth(key) == 3
    with pytest.raises(OutcomeUnknown):
        way.lose(loss, asynchronous, lambda store: (store.kv.set, key, "one"))
    assert way.near.kv.get(key, None) == ("one" if times else None)
    assert way.proxy.lose == []


@pytest.mark.parametrize(("loss", "times"), [("answer", 1), ("request", 0)])
def test_a_commit_is_done_once_or_not_at_all(way: Way, asynchronous: bool, loss: Loss, times: int) -> None:
    claim = way.near.durable.claim(way.key)
    assert claim is not None
    way.near.durable.commit(way.key, claim.token, START)
    later = replace(START, attempt_count=1)
    with pytest.raises(OutcomeUnknown):
        way.lose(loss, asynchronous, lambda store: (store.durable.commit, way.key, claim.token, later))
    assert way.near.durable.load(way.key) == (later if times else START)


def test_a_read_is_asked_for_again_without_the_caller_noticing(way: Way, asynchronous: bool) -> None:
    for operation, value in [
        (lambda store: (store.kv.get, way.key), 7),
        (lambda store: (store.list.range, way.key), [7]),
        (lambda store: (store.queue.peek, way.key), 7),
    ]:
        if not way.near.kv.get(way.key):
            way.near.kv.set(way.key, 7)
            way.near.list.append(way.key, 7)
            way.near.queue.enqueue(way.key, 7)
        for loss in ("answer", "request"):
            assert way.lose(loss, asynchronous, operation) == value
            assert way.proxy.lose == []


@pytest.mark.parametrize("loss", ["answer", "request"])
def test_a_spool_whose_answer_is_lost_is_whole_or_not_there(far: Store, store: Store, proxy: Proxy, loss: Loss) -> None:
    for number in range(3):
        store.spool.write("c", f"before {number}")
    way = Way(far.backend, store.backend, proxy, "c")  # type: ignore[arg-type]
    for _ in range(3):
        with pytest.raises(OutcomeUnknown):
            way.lose(loss, False, lambda store: (store.spool.write, "c", b"after"))
        reader = store.spool.read("c")
        assert reader is not None
        assert reader.read_all() in ("before 2", "after")
