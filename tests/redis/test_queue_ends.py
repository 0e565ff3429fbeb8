"""A queue whose items all expire: its parts end together, on servers whose clock goes on within a script too."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from django_statestore import Store
from django_statestore.backends.redis import RedisBackend, queue_lua
from django_statestore.exceptions import StoreUnavailable

from .test_faults import server

# In a loop over the keys, the second half is done when the end has come.
LATE = """
local function late(index)
    if index ~= 3 then return end
    local last = tonumber(redis.call('ZRANGE', KEYS[5], -1, -1, 'WITHSCORES')[2])
    repeat
        local time = redis.call('TIME')
    until time[1] * 1000 + math.floor(time[2] / 1000) >= last
end
"""


@pytest.fixture
def seven(prefix: str) -> Iterator[RedisBackend]:
    url = os.environ.get("STATESTORE_REDIS7_URL")
    if not url:
        pytest.skip("there is no redis-server on PATH")
    backend = RedisBackend(location=url, prefix=prefix)
    with redis.Redis.from_url(url) as client:
        first, last = client.eval(  # type: ignore[no-untyped-call,unused-ignore]
            "local first = redis.call('TIME') for _ = 1, 1000000 do end return {first[2], redis.call('TIME')[2]}", 0
        )
    if first == last:
        pytest.skip("the clock of that server stands still within a script")
    yield backend
    backend.close()


def test_a_queue_that_ends_in_the_middle_of_a_script_is_gone(seven: RedisBackend) -> None:
    """Whole: with some of its parts left, its dead items would be taken for lasting ones."""
    store = seven.store()
    keys = seven._queue_keys(store.queue._entry("q"))
    slow = LATE + queue_lua.TAKE.text.replace("do redis.call('PEXPIREAT'", "do late(index) redis.call('PEXPIREAT'")
    assert "late(index)" in slow.removeprefix(LATE)
    with redis.Redis.from_url(seven.location.url) as raw:
        for turn in range(20):
            store.queue.enqueue("q", turn, ttl=0.02)
            store.queue.enqueue("q", turn, ttl=0.02)
            both: Any = raw.pipeline(transaction=False)
            both.eval(slow, 5, *keys, b"a token", 60_000)
            both.eval(queue_lua.TAKE.text, 5, *keys, b"another", 60_000)
            taken, again = both.execute()
            assert taken is None or taken[0] is not None, "an item without a value"
            assert again is None
            assert raw.exists(*keys) == 0
            assert store.queue.depth("q") == 0


def test_a_look_at_a_queue_works_where_nothing_can_be_written() -> None:
    with server("--appendonly", "no") as (store, raw):
        for number in range(3):
            store.queue.enqueue("mortal", number, ttl=600)
        raw.config_set("min-replicas-to-write", 1)
        assert store.queue.peek("mortal") == 0
        assert store.queue.peek("none") is store.queue.dequeue("none") is store.queue.take("none") is None
        assert store.queue.ack("none", "token") is store.queue.release("none", "token") is False
        with pytest.raises(StoreUnavailable):
            store.queue.take("mortal")


def test_an_empty_look_leaves_the_log_alone(store: Store, raw: redis.Redis) -> None:
    """It asks for no write, such as a new end that is the old one: each would be flushed to disk."""
    store.queue.enqueue("mortal", 1, ttl=600)
    assert store.queue.take("mortal") is not None
    before: Any = raw.info("commandstats")
    for _ in range(3):
        assert store.queue.take("mortal") is store.queue.peek("mortal") is store.queue.dequeue("mortal") is None
    after: Any = raw.info("commandstats")
    for name in ("cmdstat_pexpireat", "cmdstat_del", "cmdstat_persist"):
        assert after.get(name, {}).get("calls", 0) == before.get(name, {}).get("calls", 0)


def test_a_full_server_is_emptied_by_those_who_take_and_confirm() -> None:
    with server("--appendonly", "no", "--maxmemory-policy", "noeviction") as (store, raw):
        for number in range(3):
            store.queue.enqueue("q", number, ttl=60)
        claim = store.dedup.claim("e", 60, 30)
        raw.config_set("maxmemory", 1)
        for number in range(3):
            item = store.queue.take("q")
            assert item is not None
            assert item.value == number
            assert item.ack()
        assert claim.confirm() is True
        assert store.dedup.seen("e", 60) is True
        with pytest.raises(StoreUnavailable, match="OOM"):
            store.dedup.seen("new", 60)


def test_what_expires_by_the_server_itself_is_absent_though_it_was_not_removed_yet(prefix: str) -> None:
    with server("--appendonly", "no", "--enable-debug-command", "yes") as (store, raw):
        raw.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        store.kv.set("k", 1, ttl=0.02)
        store.list.append("l", 1, ttl=0.02)
        lock, claim = store.lock.acquire("k", 0.02), store.dedup.claim("c", 0.02, 0.02)
        store.dedup.seen("e", 0.02)
        store.handoff.set("h", {}, 0.02)
        store.queue.enqueue("q", 1, ttl=0.02)
        kept = raw.dbsize()
        time.sleep(0.05)
        assert raw.dbsize() == kept
        facets: Any = (store.kv, store.list, store.lock, store.dedup, store.handoff, store.queue)
        assert [facet.size() for facet in facets] == [0] * 6
        assert store.kv.add("k", 2) is True
        assert store.list.append("l", 2) == 1
        assert lock is not None
        assert lock.release() is claim.confirm() is False
        assert store.lock.acquire("k") is not None
        assert store.dedup.seen("e", 60) is False
        assert store.handoff.get_and_delete("h") is None
        assert store.queue.enqueue("q", 2, max_size=1, on_full="reject") == 1
