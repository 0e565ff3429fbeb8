"""Two callers at one key, the second while the first one's transaction is still open: who wins, and with what ttl.

The races across processes come upon these moments by chance; here they are arranged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections, transaction

from django_statestore import Store
from django_statestore.exceptions import StoreUnavailable
from django_statestore.models import KVEntry, LockEntry
from django_statestore.testing import age
from tests.unit.spools import at_once

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

Operation = Callable[[Store], bool]

CLAIMS: dict[str, Operation] = {
    "kv.add": lambda store: store.kv.add("k", 1, ttl=60),
    "dedup.seen": lambda store: not store.dedup.seen("k", 60),
    "dedup.claim": lambda store: store.dedup.claim("k", 60).state == "new",
    "lock.acquire": lambda store: store.lock.acquire("k", ttl=60) is not None,
}
REMOVALS: dict[str, Operation] = {
    "kv.consume": lambda store: store.kv.consume("k") is not None,
    "kv.delete": lambda store: store.kv.delete("k"),
}


@pytest.fixture(autouse=True)
def undurable(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first caller keep any operation in an open transaction, as a slow commit does."""
    backend: Any = store.backend
    monkeypatch.setattr(backend.database, "require_durable", lambda operation: None)


@contextmanager
def open_transaction(store: Store, work: Callable[[], object], *, commit: bool) -> Iterator[threading.Event]:
    """Do some work in another thread's transaction, and end it when the event is set."""
    done, end = threading.Event(), threading.Event()

    def first() -> None:
        with transaction.atomic(using=store.alias):
            work()
            done.set()
            assert end.wait(20)
            transaction.set_rollback(not commit, using=store.alias)

    thread = threading.Thread(target=lambda: at_once(first))
    thread.start()
    assert done.wait(20)
    try:
        yield end
    finally:
        end.set()
        thread.join()


def second_to(store: Store, first: Operation, second: Operation, *, commit: bool) -> bool:
    """Return whether the second wins, sent while the first one's transaction is open."""
    results: list[bool] = []
    with open_transaction(store, lambda: results.append(first(store)), commit=commit) as end:
        thread = threading.Thread(target=lambda: at_once(lambda: results.append(second(store))))
        thread.start()
        wait_until_it_waits(store, thread)
        end.set()
        thread.join(20)
    assert results[0] is True
    return results[1]


def wait_until_it_waits(store: Store, second: threading.Thread) -> None:
    if connections[store.alias].vendor == "sqlite":
        time.sleep(0.03)  # nothing tells; what has not begun by then begins after the first one's end, and is right too
        return
    deadline = time.monotonic() + 20
    with connections[store.alias].cursor() as cursor:
        while second.is_alive() and time.monotonic() < deadline:
            cursor.execute("select count(*) from pg_stat_activity where wait_event_type = 'Lock'")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.002)
    assert not second.is_alive(), "the second neither ends nor waits"


def expired(store: Store) -> None:
    store.kv.set("k", "old", ttl=60)
    store.dedup.seen("k", 60)
    store.lock.acquire("k", ttl=60)
    age(store, 61)


def lapsed(store: Store) -> None:
    store.dedup.claim("k", 600, lease=60)
    age(store, 61)


FOUND: dict[str, Callable[[Store], None]] = {"fresh": lambda store: None, "expired": expired, "lapsed": lapsed}


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "rolled-back"])
@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize("operation", CLAIMS)
def test_of_two_claims_the_second_wins_only_if_the_first_was_rolled_back(
    store: Store, operation: str, found: str, commit: bool
) -> None:
    FOUND[found](store)
    claim = CLAIMS[operation]
    assert second_to(store, claim, claim, commit=commit) is not commit
    assert claim(store) is False


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "rolled-back"])
@pytest.mark.parametrize("operation", REMOVALS)
def test_of_two_removals_the_second_wins_only_if_the_first_was_rolled_back(
    store: Store, operation: str, commit: bool
) -> None:
    store.kv.set("k", "token", ttl=60)
    remove = REMOVALS[operation]
    assert second_to(store, remove, remove, commit=commit) is not commit
    assert remove(store) is False


def test_an_extend_after_a_release_comes_too_late(store: Store) -> None:
    lock = store.lock.acquire("k")
    assert lock is not None
    assert not second_to(store, lambda _: lock.release(), lambda _: lock.extend(60) is not None, commit=True)


def test_a_release_after_a_takeover_changes_nothing(store: Store) -> None:
    lock = store.lock.acquire("k", ttl=60)
    assert lock is not None
    age(store, 61)
    assert not second_to(store, CLAIMS["lock.acquire"], lambda _: lock.release(), commit=True)
    assert store.lock.acquire("k") is None


def test_a_confirm_after_a_takeover_comes_too_late(store: Store) -> None:
    claim = store.dedup.claim("k", 600, lease=60)
    age(store, 61)
    assert not second_to(store, CLAIMS["dedup.claim"], lambda _: claim.confirm(), commit=True)
    assert store.dedup.claim("k", 60).state == "pending"


def test_a_takeover_after_a_late_confirm_finds_it_done(store: Store) -> None:
    claim = store.dedup.claim("k", 600, lease=60)
    age(store, 61)
    assert not second_to(store, lambda _: claim.confirm(), CLAIMS["dedup.claim"], commit=True)
    assert store.dedup.claim("k", 60).state == "done"


def test_a_value_set_meanwhile_is_not_added_over(store: Store) -> None:
    def put(store: Store) -> bool:
        store.kv.set("k", "theirs")
        return True

    expired(store)
    assert not second_to(store, put, CLAIMS["kv.add"], commit=True)
    assert store.kv.get("k") == "theirs"


def test_a_purge_does_not_take_what_was_renewed_meanwhile(store: Store) -> None:
    backend: Any = store.backend
    expired(store)

    def renew(store: Store) -> bool:
        return CLAIMS["kv.add"](store) and CLAIMS["dedup.seen"](store)

    def purge() -> None:
        for facet in ("kv", "dedup"):
            backend.entries_purge(facet, 100).run()

    with open_transaction(store, lambda: renew(store), commit=True) as end:
        thread = threading.Thread(target=lambda: at_once(purge))
        thread.start()
        time.sleep(0.05)  # it passes over rows that are locked, or waits for the file
        end.set()
        thread.join(20)
    assert store.kv.get("k") == 1
    assert store.dedup.seen("k", 60) is True


# -- time while waiting -----------------------------------------------------------------------------------------------


def test_time_goes_on_within_a_transaction(store: Store) -> None:
    with transaction.atomic(using=store.alias):
        store.kv.set("k", 1, ttl=0.05)
        store.dedup.seen("e", 0.05)
        time.sleep(0.06)
        assert store.kv.get("k") is None
        assert store.kv.add("k", 2) is True
        assert store.dedup.seen("e", 60) is False


@pytest.mark.parametrize("facet", ["kv", "lock", "dedup"])
def test_the_ttl_begins_after_the_wait_for_the_row(store: Store, facet: str) -> None:
    expired(store)
    take = {"kv": CLAIMS["kv.add"], "lock": CLAIMS["lock.acquire"], "dedup": CLAIMS["dedup.seen"]}[facet]

    def lock_row() -> None:
        if connections[store.alias].vendor == "postgresql":  # on SQLite the block alone keeps others from writing
            with connections[store.alias].cursor() as cursor:
                cursor.execute(f"select 1 from statestore_{facet} for update")

    with open_transaction(store, lock_row, commit=True) as end:
        thread = threading.Thread(target=lambda: at_once(lambda: take(store)))
        thread.start()
        wait_until_it_waits(store, thread)
        time.sleep(0.3)
        end.set()
        thread.join(20)
        left = getattr(store, facet).scan().items[0].expires_in
    assert 59.75 < left <= 60


def test_a_block_is_not_run_with_a_lock_that_was_granted_too_late(store: Store) -> None:
    """The answer came when the ttl was over already."""
    entry = store.lock.entry("k")

    def insert() -> None:
        far = KVEntry._meta.get_field("expires_at").to_python("2100-01-01T00:00:00+00:00")
        LockEntry.objects.using(store.alias).create(
            id=entry.digest, namespace=entry.namespace, key="k", token=b"x" * 32, fence=1, expires_at=far
        )

    with open_transaction(store, insert, commit=False) as end:
        timer = threading.Timer(0.2, end.set)
        timer.start()
        with pytest.raises(StoreUnavailable, match="longer than the lock"), store.lock.hold("k", ttl=0.05):
            pytest.fail("the body ran")
        timer.join()
    assert store.lock.acquire("k") is not None
