"""Every operation of every facet, for tests that hold for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from django_statestore import Store

Describe: TypeAlias = Callable[[Any, dict[str, Any]], tuple[Any, ...]]
"""Given a store and what was made of it before: the method, and its arguments."""


def prepared(store: Store) -> dict[str, Any]:
    """Fill the store and return the tokens that some operations need."""
    lock, claims = store.lock.acquire("held"), [store.dedup.claim(f"claimed{number}", 60) for number in range(2)]
    assert lock is not None
    for number in range(6):
        store.queue.enqueue("q", number)
    items = [store.queue.take("q") for _ in range(2)]
    store.kv.set("k", 1)
    store.list.append("l", 1)
    store.handoff.set("h", {}, 60)
    return {"lock": lock.token, "claims": [c.token for c in claims], "items": [item.token for item in items if item]}


WRITES: dict[str, Describe] = {
    "kv.set": lambda store, made: (store.kv.set, "k", 2, 60),
    "kv.add": lambda store, made: (store.kv.add, "new", 2, 60),
    "kv.touch": lambda store, made: (store.kv.touch, "k", 60),
    "kv.touch for ever": lambda store, made: (store.kv.touch, "k", None),
    "kv.consume": lambda store, made: (store.kv.consume, "k"),
    "kv.delete": lambda store, made: (store.kv.delete, "k"),
    "list.append": lambda store, made: (store.list.append, "l", 2),
    "list.append with limits": lambda store, made: (store.list.append, "l", 2, 5, 60),
    "list.trim": lambda store, made: (store.list.trim, "l", 5),
    "list.trim to nothing": lambda store, made: (store.list.trim, "l", 0),
    "list.delete": lambda store, made: (store.list.delete, "l"),
    "lock.acquire": lambda store, made: (store.lock.acquire, "free"),
    "lock.extend": lambda store, made: (store.lock.extend, "held", made["lock"], 60),
    "lock.release": lambda store, made: (store.lock.release, "held", made["lock"]),
    "lock.force_release": lambda store, made: (store.lock.force_release, "held"),
    "dedup.seen": lambda store, made: (store.dedup.seen, "e", 60),
    "dedup.claim": lambda store, made: (store.dedup.claim, "e", 60),
    "dedup.confirm": lambda store, made: (store.dedup.confirm, "claimed0", made["claims"][0]),
    "dedup.forget": lambda store, made: (store.dedup.forget, "claimed1", made["claims"][1]),
    "queue.enqueue": lambda store, made: (store.queue.enqueue, "q", 7),
    "queue.enqueue with limits": lambda store, made: (store.queue.enqueue, "q", 8, 5, "drop-oldest", 60),
    "queue.dequeue": lambda store, made: (store.queue.dequeue, "q"),
    "queue.take": lambda store, made: (store.queue.take, "q"),
    "queue.ack": lambda store, made: (store.queue.ack, "q", made["items"][0]),
    "queue.release": lambda store, made: (store.queue.release, "q", made["items"][1]),
    "queue.delete": lambda store, made: (store.queue.delete, "q"),
    "handoff.set": lambda store, made: (store.handoff.set, "h", {}, 60),
    "handoff.issue": lambda store, made: (store.handoff.issue, {}, 60),
    "handoff.get_and_delete": lambda store, made: (store.handoff.get_and_delete, "h"),
    "handoff.delete": lambda store, made: (store.handoff.delete, "h"),
}

READS: dict[str, Describe] = {
    "kv.get": lambda store, made: (store.kv.get, "k"),
    "list.range": lambda store, made: (store.list.range, "l"),
    "list.last": lambda store, made: (store.list.last, "l", 3),
    "list.length": lambda store, made: (store.list.length, "l"),
    "queue.peek": lambda store, made: (store.queue.peek, "q"),
    "queue.depth": lambda store, made: (store.queue.depth, "q"),
    "handoff.get": lambda store, made: (store.handoff.get, "h"),
}
