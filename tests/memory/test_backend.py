"""One memory for each backend object: how it is made, what it keeps apart, and what it never gives away."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Warning

from django_statestore import Store, stores
from django_statestore.backends.memory import MemoryBackend
from django_statestore.backends.memory.clock import Clock
from django_statestore.backends.memory.primitives import alone
from django_statestore.checks import check_stores
from django_statestore.exceptions import InvalidKey, StoreMisconfigured, StoreUnavailable
from django_statestore.testing import age

BACKEND = "django_statestore.backends.memory.MemoryBackend"


@pytest.fixture
def two(settings: Any) -> tuple[Store, Store]:
    """Return two aliases, both in memory."""
    settings.STATESTORES = {"one": {"BACKEND": BACKEND}, "other": {"BACKEND": BACKEND, "OPTIONS": {"namespace": "n"}}}
    return stores["one"], stores["other"]


def test_two_aliases_are_two_stores(two: tuple[Store, Store]) -> None:
    one, other = two
    one.kv.set("k", 1)
    assert (other.kv.get("k"), other.at(()).kv.get("k"), other.names) == (None, None, ("n",))
    assert repr(one) == "<Store one namespace=()>"


def test_all_threads_share_the_memory_of_an_alias(two: tuple[Store, Store]) -> None:
    seen: list[Any] = []
    stores["one"].kv.set("k", 1)
    thread = threading.Thread(target=lambda: seen.append(stores["one"].kv.get("k")))
    thread.start()
    thread.join(20)
    assert seen == [1]


@pytest.mark.parametrize("option", ["location", "database", "timeout"])
def test_the_namespace_is_the_only_option(settings: Any, option: str) -> None:
    settings.STATESTORES = {"scratch": {"BACKEND": BACKEND, "OPTIONS": {option: "x"}}}
    with pytest.raises(StoreMisconfigured, match=rf"STATESTORES\['scratch'\]\['OPTIONS'\]\['{option}'\]"):
        stores["scratch"]


def test_it_works_without_settings_and_without_a_database() -> None:
    script = """
from django_statestore.backends.memory import MemoryBackend
store = MemoryBackend(namespace="n").store()
store.kv.set("k", {"a": [1]}, ttl=60)
assert store.kv.get("k") == {"a": [1]}
with store.lock.hold("k"):
    store.queue.enqueue("q", 1)
assert store.queue.dequeue("q") == 1
with store.durable.exclusive("t"):
    assert store.durable.load("t") is None
import sys
assert "django.db.models" not in sys.modules
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("debug", [True, False])
def test_memory_in_production_is_warned_of(settings: Any, debug: bool) -> None:
    settings.STATESTORES = {"scratch": {"BACKEND": BACKEND}}
    settings.DEBUG = debug
    messages = check_stores()
    if debug:
        assert messages == []
        return
    (message,) = messages
    assert isinstance(message, Warning)
    assert message.id == "statestore.W006"
    assert "STATESTORES['scratch']" in message.msg
    assert message.hint is not None
    assert "DatabaseBackend" in message.hint


def test_what_is_stored_is_out_of_reach(here: Store, backend: MemoryBackend) -> None:
    value, body = {"a": [1]}, bytearray(b"body")
    here.kv.set("k", value)
    here.list.append("k", value)
    here.queue.enqueue("k", value)
    reader = here.spool.write("k", body)
    value["a"].append(2)
    body[:] = b"lost"
    here.kv.get("k")["a"].append(3)
    here.list.range("k")[0]["a"].append(3)
    here.list.last("k", 1).clear()
    backend.list_range(here.list._entry("k"), 0, None).run().clear()  # type: ignore[attr-defined]
    assert here.kv.get("k") == here.list.range("k")[0] == here.queue.dequeue("k") == {"a": [1]}
    assert reader.read_bytes() == b"body"
    backend.spool_chunks(1, 0, 9).run().clear()
    assert reader.read_bytes() == b"body"


def test_a_key_of_a_class_of_its_own_is_not_kept(here: Store) -> None:
    class Keys(StrEnum):
        K = "k"

    here.kv.set(Keys.K, 1)
    here.spool.write(Keys.K, "text")
    here.lock.acquire(Keys.K)
    reader = here.spool.read("k")
    assert reader is not None
    keys = [facet.scan().items[0].key for facet in (here.kv, here.spool, here.lock)]
    assert [type(key) for key in (*keys, reader.call_id)] == [str] * 4
    assert keys == ["k"] * 3


def test_an_id_and_a_token_are_kept_nowhere(here: Store, backend: MemoryBackend) -> None:
    id, lock = here.handoff.issue({"a": 1}, 60), here.lock.acquire("k")
    here.queue.enqueue("q", 1)
    item, claim = here.queue.take("q"), here.dedup.claim("e", 60)
    assert lock is not None
    assert item is not None
    kept = repr([
        backend.memory.handoff.within(""), backend.memory.locks.within(""), backend.memory.dedup.within(""),
        backend.memory.queues.within(""),
    ])  # fmt: skip
    assert len(kept) > 500
    for secret in (id, lock.token, item.token, claim.token or ""):
        assert secret not in kept


def test_the_clock_goes_by_the_monotonic_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    assert abs(clock.now() / 1_000_000 - time.time()) < 1
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    readings = [clock.now() for _ in range(10_000)]
    assert readings == sorted(readings)
    assert len(set(readings)) > 1, "it goes by microseconds"


def test_at_its_very_instant_a_value_is_over(
    here: Store, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = backend.memory.clock.now()
    monkeypatch.setattr(backend.memory.clock, "now", lambda: start)
    here.kv.set("k", 1, ttl=0.001)
    assert here.kv.get("k") == 1
    monkeypatch.setattr(backend.memory.clock, "now", lambda: start + 999)
    assert here.kv.get("k") == 1
    monkeypatch.setattr(backend.memory.clock, "now", lambda: start + 1000)
    assert here.kv.get("k") is None
    assert here.kv.add("k", 2) is True


def test_time_passes_in_exactly_one_namespace(here: Store) -> None:
    below = here.namespace("n", "below")
    for store in (here, here.namespace("n"), below):
        store.kv.set("k", 1, ttl=10)
        store.queue.enqueue("q", 1, ttl=10)
        assert store.lock.acquire("k", 10) is not None
    age(here.namespace("n"), 11)
    assert [store.kv.get("k") for store in (here, here.namespace("n"), below)] == [1, None, 1]
    assert [store.queue.depth("q") for store in (here, here.namespace("n"), below)] == [1, 0, 1]
    assert [store.lock.size() for store in (here, here.namespace("n"), below)] == [1, 0, 1]


def test_a_call_in_the_middle_of_another_of_the_same_thread_is_told_so(here: Store, backend: MemoryBackend) -> None:
    """As a signal handler or a finalizer makes it: it neither waits for itself for ever nor sees what is half-done."""

    def interrupted(now: int) -> None:
        with pytest.raises(StoreUnavailable, match="signal handler"):
            here.kv.set("k", 1)
        with pytest.raises(StoreUnavailable):
            age(here, 1)

    alone(backend.memory, interrupted, tidies=True)
    here.kv.set("k", 2)
    assert here.kv.get("k") == 2


def test_an_error_leaves_the_store_usable(here: Store, backend: MemoryBackend) -> None:
    with pytest.raises(ZeroDivisionError):
        alone(backend.memory, lambda now: 1 // 0, tidies=False)
    with pytest.raises(InvalidKey):
        here.kv.set("", 1)
    here.kv.set("k", 1)
    assert here.kv.get("k") == 1


def test_an_operation_that_is_broken_off_leaves_nothing_torn() -> None:
    """As by Ctrl-C in a notebook, or a soft time limit: an exception out of a signal handler may come anywhere."""
    code = """
import random, signal
from django.conf import settings
settings.configure()
from django_statestore.backends.memory import MemoryBackend

class Ended(BaseException):
    pass

def end(*_):
    raise Ended

signal.signal(signal.SIGALRM, end)
store, chance, ended = MemoryBackend().store(), random.Random(1), 0
facets = (store.kv, store.list, store.queue, store.lock, store.dedup)

def calls():  # of its own: what a signal raises at the end of a loop's body passes by a handler around the loop
    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.0004))
    for _ in range(50):
        store.kv.set("k", 1, 60)
        store.kv.delete("k")
        store.list.append("k", 1, 2, 60)
        store.list.delete("k")
        store.queue.enqueue("k", 1, ttl=60)
        item = store.queue.take("k")
        item and item.ack()
        lock = store.lock.acquire("k")
        lock and lock.release()
        claim = store.dedup.claim("k", 60)
        claim and claim.forget()
    signal.setitimer(signal.ITIMER_REAL, 0)

while ended < 1500:
    try:
        calls()
    except Ended:
        ended += 1
        for facet in facets:
            assert facet.size() == len(facet.scan().items)
            facet.clear()
            assert facet.size() == 0
        assert store.queue.enqueue("k", 1) == 1
        assert store.queue.take("k").ack()
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "done", done.stderr
