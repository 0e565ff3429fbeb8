"""What is stored: its names, its slots, its end, and that nothing else is left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from django_statestore import Store
from django_statestore.backends.redis import RedisBackend
from django_statestore.testing import age

from .operations import READS, WRITES, prepared

DAY = 86_400_000


@pytest.fixture
def keys(raw: redis.Redis, prefix: str) -> Callable[[], dict[str, int]]:
    """Return what lists the keys of this test, without the prefix, and for how long each of them still lives."""

    def listed() -> dict[str, int]:
        found: Any = sorted(raw.scan_iter(match=f"{prefix}*", count=1000))
        return {key.decode().removeprefix(prefix): raw.pttl(key) for key in found}

    return listed


def parts(keys: dict[str, int]) -> list[str]:
    return [key.split(":")[0] for key in keys]


# -- what is left behind ----------------------------------------------------------------------------------------------


def test_after_everything_is_released_only_fences_are_left_for_a_day(
    store: Store, keys: Callable[[], dict[str, int]]
) -> None:
    made = prepared(store)
    for name in ("lock.release", "dedup.confirm", "dedup.forget", "queue.ack", "queue.release"):
        method, *arguments = WRITES[name](store, made)
        assert method(*arguments) is True
    lock = store.lock.acquire("forced")
    assert lock is not None
    store.lock.force_release("forced")
    while store.queue.dequeue("q", "none") != "none":
        pass
    store.kv.consume("k")
    store.list.trim("l", 0)
    store.handoff.get_and_delete("h")
    store.dedup.clear()
    left = keys()
    assert parts(left) == ["lock.fence", "lock.fence"]
    assert all(DAY - 60_000 < each <= DAY for each in left.values())


def test_what_expires_expires_by_the_server_itself(store: Store, keys: Callable[[], dict[str, int]]) -> None:
    """Nobody comes by: each key has an end of its own, a fence a day later."""
    store.kv.set("k", 1, ttl=10)
    store.kv.add("added", 1, ttl=10)
    store.kv.set("touched", 1)
    store.kv.touch("touched", 10)
    store.list.append("l", 1, ttl=10)
    store.lock.acquire("lock", ttl=10)
    store.dedup.seen("e", 10)
    store.dedup.claim("c", ttl=5, lease=10)
    store.handoff.set("h", {}, 10)
    for number in range(3):
        store.queue.enqueue("q", number, ttl=8 + number)
    store.queue.take("q", lease=600)
    store.queue.take("q")
    found = keys()
    assert all(DAY < left <= DAY + 10_000 for key, left in found.items() if key.startswith("lock.fence"))
    assert all(0 < left <= 10_000 for key, left in found.items() if not key.startswith("lock.fence")), found
    age(store, 10)
    assert parts(keys()) == ["lock.fence"]


def test_a_queue_ends_with_its_last_item_only_where_all_of_them_expire(
    store: Store, keys: Callable[[], dict[str, int]]
) -> None:
    store.queue.enqueue("q", "mortal", ttl=10)
    assert all(0 < left <= 10_000 for left in keys().values())
    store.queue.enqueue("q", "lasting")
    assert set(keys().values()) == {-1}
    age(store, 11)
    assert (store.queue.depth("q"), store.queue.size()) == (1, 1)
    store.queue.enqueue("q", "mortal", ttl=20)
    assert store.queue.dequeue("q") == "lasting"
    assert all(10_000 < left <= 20_000 for left in keys().values())
    item = store.queue.take("q", lease=60)
    assert item is not None
    assert all(0 < left <= 20_000 for left in keys().values())
    assert item.ack()
    assert keys() == {}


def test_clear_leaves_the_fences_and_a_later_fence_is_higher(store: Store, keys: Callable[[], dict[str, int]]) -> None:
    prepared(store)
    first = store.lock.acquire("k")
    assert first is not None
    for facet in (store.kv, store.list, store.lock, store.dedup, store.queue, store.handoff):
        facet.clear()
    assert set(parts(keys())) == {"lock.fence"}
    second = store.lock.acquire("k")
    assert second is not None
    assert second.fence > first.fence


def test_a_fence_is_exact_however_large(store: Store, raw: redis.Redis, prefix: str) -> None:
    last = 2**53 - 10
    for fence in range(last, last + 5):
        lock = store.lock.acquire("k")
        assert lock is not None
        assert lock.release()
        (name,) = raw.scan_iter(match=f"{prefix}lock.fence*")
        raw.set(name, fence)
        lock = store.lock.acquire("k")
        assert lock is not None
        assert lock.fence == fence + 1
        assert lock.release()


def test_expired_items_of_a_queue_are_removed_in_batches_while_the_depth_is_exact(
    store: Store, raw: redis.Redis, prefix: str
) -> None:
    for number in range(250):
        store.queue.enqueue("q", number, ttl=10)
    store.queue.enqueue("q", "lasting")
    age(store, 11)
    (ends,) = raw.scan_iter(match=f"{prefix}queue.ends:*")
    counts: list[Any] = [raw.zcard(ends)]
    for depth in (2, 3, 4):
        assert store.queue.depth("q") == depth - 1
        assert store.queue.enqueue("q", "new") == depth
        counts.append(raw.zcard(ends))
    assert counts == [250, 150, 50, 0]
    assert [store.queue.dequeue("q") for _ in range(4)] == ["lasting", "new", "new", "new"]


# -- names ------------------------------------------------------------------------------------------------------------


def test_all_keys_are_under_the_prefix_and_those_of_an_entry_are_in_one_slot(
    store: Store, raw: redis.Redis, prefix: str
) -> None:
    odd = ["a", "{a}b", "a}b{", "{}", "}{", "{", "b"]
    before: Any = set(raw.scan_iter(count=1000))
    for key in odd:
        store.queue.enqueue(key, 1, ttl=60)
        store.queue.enqueue(key, 2, ttl=60)
        store.queue.take(key)
        store.lock.acquire(key)
        store.dedup.claim(key, 60)
        store.kv.set(key, 1)
        store.list.append(key, 1)
    new: Any = set(raw.scan_iter(count=1000)) - before
    assert all(key.startswith(prefix.encode()) for key in new)
    slots = {key: {key_slot(name) for name in new if name.endswith(b"}:" + key.encode())} for key in odd}
    assert {key: len(of_key) for key, of_key in slots.items()} == dict.fromkeys(odd, 1)
    assert len(set.union(*slots.values())) == len(odd)


def test_the_handoffs_of_a_namespace_are_in_one_slot_and_show_no_id(
    store: Store, raw: redis.Redis, prefix: str
) -> None:
    ids = [store.handoff.issue({"n": number}, 60) for number in range(5)]
    names: Any = list(raw.scan_iter(match=f"{prefix}*"))
    assert len(names) == 5
    assert len({key_slot(name) for name in names}) == 1
    assert not any(each.encode() in name for each in ids for name in names)
    store.namespace("below").handoff.issue({}, 60)
    assert len({key_slot(name) for name in raw.scan_iter(match=f"{prefix}*")}) == 2


def test_tokens_are_stored_as_digests(store: Store, raw: redis.Redis, prefix: str) -> None:
    made = prepared(store)
    tokens = [made["lock"], *made["claims"], *made["items"]]
    stored = b""
    for name in raw.scan_iter(match=f"{prefix}*"):
        stored += name + (raw.dump(name) or b"")
    assert not any(token.encode() in stored for token in tokens)


@pytest.mark.parametrize("special", ["*", "?", "[a-z]", "\\", "^", "a*b?c[d]e\\f"])
def test_a_prefix_is_text_and_no_pattern(url: str, prefix: str, special: str) -> None:
    one, other = (RedisBackend(location=url, prefix=each) for each in (prefix + special, prefix + "x"))
    try:
        one.store().kv.set("k", 1)
        other.store().kv.set("k", 1)
        other.store().kv.set("another", 1)
        assert (one.store().kv.size(), other.store().kv.size()) == (1, 2)
        one.store().kv.clear()
        assert (one.store().kv.size(), other.store().kv.size()) == (0, 2)
    finally:
        one.close()
        other.close()


def test_a_key_that_looks_like_another_namespace_is_not_of_it(store: Store, raw: redis.Redis, prefix: str) -> None:
    store.namespace("victim").kv.set("k", 1)
    (name,) = raw.scan_iter(match=f"{prefix}*")
    hostile = name.decode().removeprefix(prefix)
    for key in (hostile, f"x{hostile}", f"kv:{hostile}"):
        store.kv.set(key, 1)
    victim = store.namespace("victim").kv
    assert (victim.size(), [item.key for item in victim.scan().items]) == (1, ["k"])
    victim.clear()
    assert store.kv.size() == 3


@pytest.mark.parametrize("name", READS)
def test_a_read_writes_nothing(store: Store, raw: redis.Redis, prefix: str, name: str) -> None:
    made = prepared(store)
    stored = {key: raw.dump(key) for key in raw.scan_iter(match=f"{prefix}*")}
    method, *arguments = READS[name](store, made)
    method(*arguments)
    assert {key: raw.dump(key) for key in raw.scan_iter(match=f"{prefix}*")} == stored
