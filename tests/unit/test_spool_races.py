"""spool under races: one live blob an entry, and readers that never see a mixture."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from django.db import transaction

from django_statestore.models import SpoolBlob, SpoolEntry
from django_statestore.store import Store

from .spools import at_once, chunks_of, states

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

THREADS = 8


@pytest.fixture(params=[65_536, 50, 3], ids=["one-chunk", "one-piece", "long"], autouse=True)
def chunk_size(request: pytest.FixtureRequest, store: Store) -> Iterator[None]:
    with chunks_of(store, request.param):
        yield


def body(mark: int, turn: int) -> bytes:
    """Return what tells of each of its lines who wrote it, of a length that tells it too."""
    return b"%d.%d\n" % (mark, turn) * (20 + mark)


def check_whole(store: Store, call_id: str) -> None:
    reader = store.spool.read(call_id)
    if reader is not None:
        mark, turn = map(int, (reader.line(0) or "").split("."))
        assert reader.read_bytes() == body(mark, turn)
        assert reader.line(reader.line_count - 2) == reader.line(0)


def check_settled(store: Store) -> None:
    """Every entry names a live blob, and there is no other live blob."""
    entries = SpoolEntry.objects.using(store.alias).values_list("blob_id", flat=True)
    live = SpoolBlob.objects.using(store.alias).filter(lease_until=None, dropped_at=None)
    assert sorted(entries) == sorted(live.values_list("id", flat=True))
    assert "writing" not in states(store)


def test_writers_of_one_id(store: Store) -> None:
    over = threading.Event()
    left = threading.Semaphore(0)

    def write(mark: int) -> None:
        try:
            for turn in range(10):
                assert store.spool.write("c", body(mark, turn)).read_bytes() == body(mark, turn)
        finally:
            left.release()

    def read() -> None:
        while not over.is_set():
            check_whole(store, "c")

    def wait() -> None:
        for _ in range(THREADS):
            left.acquire(timeout=60)
        over.set()

    at_once(*(partial(write, mark) for mark in range(THREADS)), read, read, wait)
    assert states(store) == {"live": 1, "dropped": THREADS * 10 - 1}
    assert store.spool.size() == 1
    check_whole(store, "c")
    check_settled(store)


def test_everything_at_once(store: Store) -> None:
    def work(seed: int) -> None:
        chance = random.Random(seed)
        for turn in range(25):
            call_id = chance.choice("ab")
            match chance.randrange(8):
                case 0 | 1:
                    store.spool.delete(call_id)
                case 2:
                    store.spool.clear()
                case 3:
                    check_whole(store, call_id)
                case 4:
                    with transaction.atomic(using=store.alias):
                        store.spool.write(call_id, body(seed, turn))
                        if chance.random() < 0.5:
                            transaction.set_rollback(True, using=store.alias)
                case _:
                    store.spool.write(call_id, iter([body(seed, turn)]))

    at_once(*(partial(work, seed) for seed in range(THREADS)))
    check_settled(store)
    assert store.spool.size() == states(store).get("live", 0)
    store.spool.clear()
    assert "live" not in states(store)


def test_exactly_one_delete_wins(store: Store) -> None:
    for _ in range(10):
        store.spool.write("c", "text")
        won: list[bool] = []
        at_once(*[lambda won=won: won.append(store.spool.delete("c"))] * THREADS)
        assert sorted(won) == [False] * (THREADS - 1) + [True]
    check_settled(store)


@pytest.mark.parametrize("change", ["write", "delete", "clear"])
def test_one_that_waited_for_a_transaction_sees_what_it_left(store: Store, change: str) -> None:
    """The other's blob was not there yet when the statement that waited began."""
    store.spool.write("c", body(0, 0))
    written = threading.Event()

    def first() -> None:
        with transaction.atomic(using=store.alias):
            store.spool.write("c", body(1, 1))
            written.set()
            waiting.wait(0.3)

    def second() -> None:
        written.wait(20)
        if change == "write":
            store.spool.write("c", body(2, 2))
        elif change == "delete":
            assert store.spool.delete("c") is True
        else:
            store.spool.clear()

    waiting = threading.Event()  # never set: it is how long the second is left to run into the first one's lock
    at_once(first, second)
    check_settled(store)
    reader = store.spool.read("c")
    if change == "write":
        assert reader is not None
        assert reader.read_bytes() == body(2, 2)
    else:
        assert reader is None


def test_a_write_beside_a_delete_that_is_not_committed(store: Store) -> None:
    old = store.spool.write("c", body(0, 0))
    deleted = threading.Event()

    def first() -> None:
        with transaction.atomic(using=store.alias):
            store.spool.delete("c")
            deleted.set()
            waiting.wait(0.3)

    def second() -> None:
        deleted.wait(20)
        store.spool.write("c", body(2, 2))

    waiting = threading.Event()
    at_once(first, second)
    check_settled(store)
    reader = store.spool.read("c")
    assert reader is not None
    assert reader.read_bytes() == body(2, 2)
    assert old.read_bytes() == body(0, 0)
    assert states(store) == {"live": 1, "dropped": 1}


def test_writers_of_many_ids_do_not_wait_for_each_other_in_vain(store: Store) -> None:
    def work(mark: int) -> None:
        for turn in range(10):
            store.spool.write(f"c{(mark + turn) % THREADS}", body(mark, turn))

    at_once(*(partial(work, mark) for mark in range(THREADS)))
    assert store.spool.size() == THREADS
    check_settled(store)
