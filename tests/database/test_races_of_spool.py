"""spool under races: one live blob an entry, and readers that never see a mixture."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from django.db import transaction

from django_statestore.models import SpoolBlob, SpoolEntry
from django_statestore.store import Store
from tests.unit.spools import at_once, chunks_of, states

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

THREADS = 8


@pytest.fixture(params=[65_536, 50, 3], ids=["one-chunk", "one-piece", "long"])
def every_way(request: pytest.FixtureRequest, store: Store) -> Iterator[None]:
    """Write in each of the three ways: one statement, one transaction, or piece by piece."""
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


@pytest.mark.usefixtures("every_way")
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


@pytest.mark.usefixtures("every_way")
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


@pytest.mark.usefixtures("every_way")
def test_one_that_waited_for_a_transaction_sees_what_it_left(store: Store) -> None:
    """The other's blob was not there yet when the statement that waited began."""
    changes: dict[str, Callable[[], object]] = {
        "write": lambda: store.spool.write("c", body(2, 2)),
        "delete": lambda: store.spool.delete("c"),
        "clear": lambda: store.spool.clear(),
    }
    for name, change in changes.items():
        store.spool.write("c", body(0, 0))
        beside(store, lambda: store.spool.write("c", body(1, 1)), change)
        check_settled(store)
        reader = store.spool.read("c")
        assert (reader and reader.read_bytes()) == (body(2, 2) if name == "write" else None)


@pytest.mark.usefixtures("every_way")
def test_a_write_that_waited_for_a_delete(store: Store) -> None:
    old = store.spool.write("c", body(0, 0))
    beside(store, lambda: store.spool.delete("c"), lambda: store.spool.write("c", body(2, 2)))
    check_settled(store)
    reader = store.spool.read("c")
    assert reader is not None
    assert reader.read_bytes() == body(2, 2)
    assert old.read_bytes() == body(0, 0)
    assert states(store) == {"live": 1, "dropped": 1}


def beside(store: Store, in_a_transaction: Callable[[], object], waits_for_it: Callable[[], object]) -> None:
    """Let the second run into the locks of the first, which commits only then."""
    done, never = threading.Event(), threading.Event()

    def first() -> None:
        with transaction.atomic(using=store.alias):
            in_a_transaction()
            done.set()
            never.wait(0.2)

    def second() -> None:
        done.wait(20)
        waits_for_it()

    at_once(first, second)


def test_writers_of_many_ids_do_not_wait_for_each_other_in_vain(store: Store) -> None:
    def work(mark: int) -> None:
        for turn in range(10):
            store.spool.write(f"c{(mark + turn) % THREADS}", body(mark, turn))

    at_once(*(partial(work, mark) for mark in range(THREADS)))
    assert store.spool.size() == THREADS
    check_settled(store)
