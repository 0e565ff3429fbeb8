"""What has expired, or is over, does not pile up: writes clear it away, and nobody has to purge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import override_settings

from django_statestore import Store
from django_statestore.backends.memory import MemoryBackend, blobs, taskindex
from django_statestore.testing import age
from tests.memory.test_threads import counted


def weight(backend: MemoryBackend) -> int:
    """Count whatever objects the backend holds, to any depth."""
    seen: set[int] = set()
    todo: list[Any] = [backend.memory]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type) or callable(each):
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            todo += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set):
            todo += each
        elif type(each).__module__.startswith("django_statestore"):
            for cls in type(each).__mro__:
                todo += [getattr(each, name) for name in getattr(cls, "__slots__", ()) if hasattr(each, name)]
            todo += getattr(each, "__dict__", {}).values()
    return len(seen)


SHORT = 0.001

LIVES: dict[str, Callable[[Store, int], object]] = {
    "kv.set": lambda store, n: store.kv.set(f"k{n}", "x", ttl=SHORT),
    "kv.set of one key": lambda store, n: store.kv.set("k", "x", ttl=1000 - n / 1000),
    "kv.set and consume": lambda store, n: (store.kv.set(f"k{n}", "x", ttl=1000), store.kv.consume(f"k{n}")),
    "kv.touch": lambda store, n: (store.kv.add("k", 1), store.kv.touch("k", 1000 + n)),
    "namespaces": lambda store, n: store.namespace(f"n{n}").kv.set("k", "x", ttl=SHORT),
    "handoff.issue": lambda store, n: store.handoff.issue({}, SHORT),
    "handoff taken": lambda store, n: store.handoff.get_and_delete(store.handoff.issue({}, 1000)),
    "dedup.seen": lambda store, n: store.dedup.seen(f"e{n}", SHORT),
    "dedup.claim": lambda store, n: store.dedup.claim(f"e{n}", SHORT, SHORT),
    "dedup.once": lambda store, n: store.dedup.claim(f"e{n}", 1000).forget(),
    "lock.acquire": lambda store, n: store.lock.acquire(f"k{n}", SHORT),
    "lock of one key": lambda store, n: (lock := store.lock.acquire("k", 1000)) and lock.release(),
    "list.append": lambda store, n: store.list.append(f"l{n}", "x", ttl=SHORT),
    "list with a cap": lambda store, n: store.list.append("l", "x", max_len=3),
    "queue of short items": lambda store, n: store.queue.enqueue("q", "x", ttl=SHORT),
    "queues of short items": lambda store, n: store.queue.enqueue(f"q{n}", "x", ttl=SHORT),
    "queue with a limit": lambda store, n: store.queue.enqueue("q", "x", max_size=3, ttl=1000),
    "queue used": lambda store, n: (store.queue.enqueue("q", "x", ttl=1000), store.queue.dequeue("q")),
    "queue taken": lambda store, n: (
        store.queue.enqueue("q", "x"),
        (item := store.queue.take("q", 1000)) and item.release(),
        (item := store.queue.take("q", 1000)) and item.ack(),
    ),
    "names listed": lambda store, n: (store.kv.set(f"k{n}", 1, ttl=SHORT), n % 50 == 0 and store.kv.scan()),
}


@pytest.mark.parametrize("name", LIVES)
def test_short_lives_leave_nothing_behind(here: Store, backend: MemoryBackend, name: str) -> None:
    for number in range(2000):
        LIVES[name](here, number)
    early = weight(backend)
    for number in range(2000, 8000):
        LIVES[name](here, number)
    assert weight(backend) < early + 3000, "6,000 more would be told by many thousand objects"


def test_a_hundred_thousand_values_that_have_expired_go_with_the_writes_that_follow(
    here: Store, backend: MemoryBackend
) -> None:
    for number in range(100_000):
        backend.kv_set(here.kv._scope.entry(f"k{number}"), "1", 1).run()
    for _ in range(2000):
        here.lock.acquire("other facets clear away too", SHORT)
    assert weight(backend) < 1000


def test_a_write_clears_away_a_bounded_number(here: Store, backend: MemoryBackend) -> None:
    for number in range(10_000):
        here.kv.set(f"k{number}", 1, ttl=100)
    age(here, 101)
    for _ in range(80):
        here.dedup.seen("e", 10)
    left = len(backend.memory.kv.within(""))
    assert 9000 < left < 10_000


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "IDLE", 20)
    monkeypatch.setattr(taskindex, "IDLE", 20)


@pytest.mark.usefixtures("few")
def test_rewritten_spools_go_when_their_grace_is_over_unless_a_task_uses_them(
    here: Store, backend: MemoryBackend
) -> None:
    kept = here.spool.write_for_task(7, "kept", b"kept", "facts")
    with override_settings(STATESTORE={"SPOOL_GRACE": 0.001}):
        for number in range(2000):
            here.spool.write("c", f"version {number}")
        assert weight(backend) < 2000
    young = here.spool.write("young", b"young")
    here.spool.delete("young")
    for number in range(200):
        here.spool.write("c", f"version {number}")
    assert (kept.read_bytes(), young.read_bytes()) == (b"kept", b"young")


def test_bytes_that_nobody_needs_are_bounded_too(
    here: Store, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "IDLE_BYTES", 1_000_000)
    with override_settings(STATESTORE={"SPOOL_GRACE": 0.001}):
        for _ in range(200):
            here.spool.write("c", bytes(100_000))
        assert weight(backend) < 500
    assert here.spool.size() == 1


@pytest.mark.usefixtures("few")
def test_uploads_that_were_given_up_go_too(here: Store, backend: MemoryBackend) -> None:
    def upload() -> None:
        flow = here.spool._write("c", [bytes(2_000_000), b"more"])
        begun = flow.send(next(flow).run()).run()
        flow.send(begun)
        flow.close()

    with override_settings(STATESTORE={"SPOOL_LEASE": 0.001, "SPOOL_GRACE": 0.001}):
        for _ in range(100):
            upload()
            here.kv.set("k", 1)
        assert len(backend.memory.blobs._rows) < 60


@pytest.mark.usefixtures("few")
def test_finished_tasks_go_when_their_retention_is_over(here: Store, backend: MemoryBackend) -> None:
    with override_settings(STATESTORE={"RETAIN_FINISHED": 0.001}):
        for number in range(1000):
            here.durable.save(f"t{number}", counted(number, "completed"))
        assert len(backend.memory.tasks.within("")) < 100
    here.durable.save("open", counted(1))
    for number in range(500):
        here.durable.save(f"t{number}", counted(number, "completed"))
    assert len(backend.memory.tasks.within("")) > 500, "their retention is two weeks"
    assert here.durable.load("open") is not None
