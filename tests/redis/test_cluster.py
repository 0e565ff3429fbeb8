"""A cluster: where keys lie, slots that move while they are used, and nodes that go away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings
from redis.crc import key_slot

from django_statestore import Store
from django_statestore.backends.redis import RedisBackend
from django_statestore.exceptions import StoreMisconfigured, StoreUnavailable
from tests.calling import Call
from tests.servers.cluster import Cluster, Node, wait_for

from .operations import READS, WRITES, prepared
from .proxy import Proxy


@pytest.fixture
def backend(cluster: Cluster, prefix: str) -> Iterator[RedisBackend]:
    backend = RedisBackend(location=cluster.url, cluster=True, prefix=prefix)
    yield backend
    backend.close()


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    return Call(asynchronous=request.param)


def names(cluster: Cluster, prefix: str) -> list[bytes]:
    return [name for node in cluster.nodes for name in node.raw.scan_iter(match=f"{prefix}*")]


def owner(cluster: Cluster, name: bytes) -> Node:
    """Return the node that serves a key."""
    (node,) = (node for node in cluster.nodes
               for start, end, (_, _, id_, *_), *_ in node.ask("SLOTS")
               if id_.decode() == node.id and start <= key_slot(name) <= end)  # fmt: skip
    return node


# -- slots ------------------------------------------------------------------------------------------------------------


def test_every_operation_works(store: Store, call: Call) -> None:
    made = prepared(store)
    for operation in (WRITES | READS).values():
        method, *arguments = operation(store, made)
        call(method, *arguments)


def test_an_entry_is_in_one_slot_whatever_its_key(store: Store, cluster: Cluster, prefix: str) -> None:
    for key in ("a", "{a}b", "a}b{", "{}", "}{", "{b}"):
        store.namespace(key).kv.set(key, 1)
        assert store.lock.acquire(key) is not None
        store.dedup.seen(key, 60)
        store.dedup.claim(f"{key} too", 60)
        store.list.append(key, 1, ttl=60)
        store.queue.enqueue(key, 1, ttl=60)
        assert store.queue.take(key) is not None
        assert store.durable.claim(key) is not None
    slots_of: dict[tuple[bytes, bytes], set[int]] = {}
    for name in names(cluster, prefix):
        part, _, tag, rest = name.removeprefix(prefix.encode()).split(b":", 3)
        assert tag.startswith(b"{")
        slots_of.setdefault((part.split(b".")[0], rest), set()).add(key_slot(name))
    assert len(slots_of) > 40
    assert all(len(slots) == 1 for slots in slots_of.values())
    assert len(set.union(*slots_of.values())) > 5


def test_namespaces_are_counted_listed_and_cleared_on_all_nodes(
    store: Store, cluster: Cluster, prefix: str, call: Call
) -> None:
    keys = sorted(f"k{number:02}" for number in range(40))
    for key in keys:
        store.kv.set(key, 1)
        store.queue.enqueue(key, 1)
        store.spool.write(key, b"text")
        store.namespace("below").kv.set(key, 1)
    holding = [node for node in cluster.nodes if any(node.raw.scan_iter(match=f"{prefix}kv:*"))]
    assert len(holding) == 3
    for facet in (store.kv, store.queue, store.spool):
        assert call(facet.size) == 40
        assert [item.key for item in call(facet.scan).items] == keys
        call(facet.clear)
        assert call(facet.size) == 0
    assert call(store.namespace("below").kv.size) == 40


def test_many_locks_of_many_nodes_are_renewed_at_once(store: Store) -> None:
    backend: Any = store.backend
    held = []
    for number in range(30):
        entry = store.lock._entry(f"k{number}")
        assert backend.lock_acquire(entry, b"token", 60_000).run() is not None
        held.append((entry, b"token", 60_000))
    held.append((store.lock._entry("nobody's"), b"token", 60_000))
    assert backend.lock_renew(held).run() == [True] * 30 + [False]


# -- slots that move --------------------------------------------------------------------------------------------------


def move(source: Node, target: Node, slot: int, pause: float) -> None:
    """Move a slot as redis-cli does, taking its time over it."""
    target.ask("SETSLOT", slot, "IMPORTING", source.id)
    source.ask("SETSLOT", slot, "MIGRATING", target.id)
    raw: Any = source.raw
    time.sleep(pause)
    while found := source.ask("GETKEYSINSLOT", slot, 1):
        raw.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *found)
        time.sleep(pause)
    target.ask("SETSLOT", slot, "NODE", target.id)
    source.ask("SETSLOT", slot, "NODE", target.id)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_slot_that_moves_while_it_is_used(
    backend: RedisBackend, store: Store, cluster: Cluster, asynchronous: bool
) -> None:
    """Nothing is lost, doubled or refused, and what one step needs may be on two nodes meanwhile."""
    call, over, failed = Call(asynchronous=asynchronous), threading.Event(), list[BaseException]()
    slot = key_slot(backend.key("list", store.list._entry("k")))
    for part in ("queue", "lock", "kv"):
        assert key_slot(backend.key(part, store.kv._entry("k"))) == slot
    fences: list[int] = []

    def append(number: int) -> None:
        assert call(store.list.append, "k", number) == number + 1

    def pass_on(number: int) -> None:
        call(store.queue.enqueue, "k", number)
        assert call(store.queue.dequeue, "k") == number

    def lock(number: int) -> None:
        held = call(store.lock.acquire, "k")
        assert held is not None
        fences.append(held.fence)
        assert call(held.release) is True

    def keep(number: int) -> None:
        call(store.kv.set, "k", number)
        assert call(store.kv.get, "k") == number

    done: dict[Callable[[int], None], int] = {append: 0, pass_on: 0, lock: 0, keep: 0}

    def work(operation: Callable[[int], None]) -> None:
        try:
            while not over.is_set():
                operation(done[operation])
                done[operation] += 1
        except BaseException as error:
            failed.append(error)

    def go_on() -> None:
        """Wait until each of them has got further."""
        before = dict(done)
        wait_for(lambda: failed or all(done[each] > before[each] + 2 for each in done))

    threads = [threading.Thread(target=work, args=(each,)) for each in done]
    for thread in threads:
        thread.start()
    try:
        source = owner(cluster, backend.key("list", store.list._entry("k")))
        target = next(node for node in cluster.nodes if node is not source)
        for start, end in ((source, target), (target, source)):
            go_on()
            move(start, end, slot, 0.03)
        go_on()
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
    if failed:
        raise failed[0]
    assert store.list.range("k") == list(range(done[append]))
    assert fences == sorted(set(fences))


def test_a_moved_slot_is_asked_for_at_its_new_node_from_then_on(
    backend: RedisBackend, store: Store, cluster: Cluster
) -> None:
    store.kv.set("k", 1)
    name = backend.key("kv", store.kv._entry("k"))
    source = owner(cluster, name)
    target = next(node for node in cluster.nodes if node is not source)
    move(source, target, key_slot(name), 0)
    try:
        assert store.kv.get("k") == 1
        before = moved(source)
        for _ in range(5):
            assert store.kv.get("k") == 1
        assert moved(source) == before
    finally:
        move(target, source, key_slot(name), 0)


def moved(node: Node) -> int:
    info: Any = node.raw.info("errorstats")
    return int(info.get("errorstat_MOVED", {}).get("count", 0))


# -- nodes that go away -----------------------------------------------------------------------------------------------


def test_a_node_that_goes_away_and_the_replica_that_takes_over() -> None:
    cluster = Cluster()
    backend = RedisBackend(location=cluster.url, cluster=True)
    store = backend.store()
    try:
        first = cluster.nodes[0]  # the one that the settings name
        keys = {node: next(key for key in map(str, range(1000))
                           if owner(cluster, backend.key("kv", store.kv._entry(key))) is node)
                for node in cluster.nodes}  # fmt: skip
        replica = cluster.add(first)
        for key in keys.values():
            store.kv.set(key, key)
        first.raw.wait(1, 5000)
        first.server.order("kill")
        for call in (Call(asynchronous=False), Call(asynchronous=True)):
            with pytest.raises(StoreUnavailable):
                call(store.kv.get, keys[first])
            with pytest.raises(StoreUnavailable):
                call(store.kv.set, keys[first], 1)
            for node in cluster.nodes[1:3]:
                assert call(store.kv.get, keys[node]) == keys[node]
        replica.ask("FAILOVER", "TAKEOVER")
        wait_for(lambda: all(replica.id.encode() in _primaries(node) for node in cluster.nodes[1:]))
        for call in (Call(asynchronous=False), Call(asynchronous=True)):
            for key in keys.values():
                assert call(store.kv.get, key) == key
            assert call(store.kv.size) == 3
        store.kv.set(keys[first], 2)
        assert store.kv.get(keys[first]) == 2
    finally:
        backend.close()
        cluster.stop()


def _primaries(node: Node) -> list[bytes]:
    return [id_ for _, _, (_, _, id_, *_), *_ in node.ask("SLOTS")]


# -- settings ---------------------------------------------------------------------------------------------------------


def test_one_node_taken_for_a_single_server_is_told(cluster: Cluster, prefix: str, call: Call) -> None:
    backend = RedisBackend(location=cluster.url, prefix=prefix)
    try:
        with pytest.raises(StoreMisconfigured, match="say so with the option 'cluster'"):
            for number in range(30):
                call(backend.store().kv.set, f"k{number}", 1)
    finally:
        backend.close()


def test_a_single_server_taken_for_a_cluster_is_told(url: str, call: Call) -> None:
    with pytest.raises(StoreMisconfigured, match=r"OPTIONS'\]\['cluster'\] needs .* not a Unix socket"):
        RedisBackend(alias="fast", location="unix:///some/where.sock", cluster=True)
    with pytest.raises(StoreMisconfigured, match=r"'cluster'.* must be True or False"):
        RedisBackend(alias="fast", location="redis://127.0.0.1", cluster="yes")  # type: ignore[arg-type]
    with pytest.raises(StoreMisconfigured, match=r"'prefix'.* would take it for a tag"):
        RedisBackend(alias="fast", location="redis://127.0.0.1", prefix="a{b:", cluster=True)
    proxy = Proxy(None, url)
    backend = RedisBackend(location=proxy.url, cluster=True)
    try:
        with pytest.raises(StoreMisconfigured, match="is no cluster: leave it out"):
            call(backend.store().kv.get, "k")
    finally:
        backend.close()
        proxy.close()


def test_any_node_that_is_named_will_do(cluster: Cluster, prefix: str, call: Call) -> None:
    for location in (["redis://127.0.0.1:9", cluster.url], f"redis://127.0.0.1:9,{cluster.nodes[1].url}"):
        cache = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": location}
        with override_settings(CACHES={"state": cache}):
            backend = RedisBackend(cache="state", cluster=True, prefix=prefix)
        try:
            call(backend.store().kv.set, "k", 1)
            assert call(backend.store().kv.size) == 1
        finally:
            backend.close()


def test_each_event_loop_has_connections_of_its_own(store: Store) -> None:
    async def work(number: int) -> None:
        for each in range(20):
            await store.kv.aset(f"k{each}", number)
            assert await store.kv.aget(f"k{each}") == number

    for number in range(3):
        async_to_sync(work)(number)
