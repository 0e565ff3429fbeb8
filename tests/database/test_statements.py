"""Every operation of kv and lock, and dedup.seen, is one statement, and who loses a race writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore import Store
from django_statestore.contracts.lock import Lock
from django_statestore.testing import age
from tests.calling import Call

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)  # so that BEGIN and COMMIT would count

TABLES = {"kv": "statestore_kv", "lock": "statestore_lock", "dedup": "statestore_dedup"}


class Prepared:
    """A namespace with one entry of every kind."""

    def __init__(self, store: Store) -> None:
        for name in ("old", "old again"):
            store.kv.set(name, 1, ttl=10)
            store.lock.acquire(name, ttl=10)
            store.dedup.seen(name, 10)
            store.dedup.claim(f"lapsed {name}", 600, lease=10)
        age(store, 11)
        store.kv.set("live", 1, ttl=60)
        store.kv.set("lasting", 1)
        lock = store.lock.acquire("live", ttl=60)
        assert lock is not None
        self.lock: Lock = lock
        claim = store.dedup.claim("claimed", 60)
        assert claim.token is not None
        self.token: str = claim.token
        store.dedup.seen("live", 60)


ONE_STATEMENT: dict[str, Callable[[Store, Call, Prepared], Any]] = {
    "kv.get": lambda store, call, at: call(store.kv.get, "live"),
    "kv.get nothing": lambda store, call, at: call(store.kv.get, "none"),
    "kv.get expired": lambda store, call, at: call(store.kv.get, "old"),
    "kv.set fresh": lambda store, call, at: call(store.kv.set, "fresh", 1, ttl=5),
    "kv.set live": lambda store, call, at: call(store.kv.set, "live", 1),
    "kv.set expired": lambda store, call, at: call(store.kv.set, "old again", 1),
    "kv.add fresh": lambda store, call, at: call(store.kv.add, "fresh too", 1),
    "kv.add live": lambda store, call, at: call(store.kv.add, "live", 1),
    "kv.add expired": lambda store, call, at: call(store.kv.add, "old", 1),
    "kv.touch": lambda store, call, at: call(store.kv.touch, "live", 60),
    "kv.touch nothing": lambda store, call, at: call(store.kv.touch, "none", 60),
    "kv.delete nothing": lambda store, call, at: call(store.kv.delete, "none"),
    "kv.delete": lambda store, call, at: call(store.kv.delete, "lasting"),
    "kv.consume": lambda store, call, at: call(store.kv.consume, "live"),
    "kv.consume nothing": lambda store, call, at: call(store.kv.consume, "none"),
    "kv.size": lambda store, call, at: call(store.kv.size),
    "kv.scan": lambda store, call, at: call(store.kv.scan),
    "kv.clear": lambda store, call, at: call(store.kv.clear),
    "lock.acquire fresh": lambda store, call, at: call(store.lock.acquire, "fresh"),
    "lock.acquire held": lambda store, call, at: call(store.lock.acquire, "live"),
    "lock.acquire expired": lambda store, call, at: call(store.lock.acquire, "old"),
    "lock.extend": lambda store, call, at: call(store.lock.extend, "live", at.lock.token, 60),
    "lock.extend stale": lambda store, call, at: call(store.lock.extend, "live", "stale", 60),
    "lock.release stale": lambda store, call, at: call(store.lock.release, "live", "stale"),
    "Lock.extend": lambda store, call, at: call(at.lock.extend, 60),
    "Lock.release": lambda store, call, at: call(at.lock.release),
    "lock.force_release": lambda store, call, at: call(store.lock.force_release, "fresh"),
    "lock.force_release nothing": lambda store, call, at: call(store.lock.force_release, "none"),
    "lock.size": lambda store, call, at: call(store.lock.size),
    "lock.scan": lambda store, call, at: call(store.lock.scan),
    "lock.clear": lambda store, call, at: call(store.lock.clear),
    "dedup.seen fresh": lambda store, call, at: call(store.dedup.seen, "fresh", 60),
    "dedup.seen repeat": lambda store, call, at: call(store.dedup.seen, "live", 60),
    "dedup.seen expired": lambda store, call, at: call(store.dedup.seen, "old", 60),
    "dedup.claim fresh": lambda store, call, at: call(store.dedup.claim, "first", 60),
    "dedup.claim expired": lambda store, call, at: call(store.dedup.claim, "old again", 60),
    "dedup.claim lapsed": lambda store, call, at: call(store.dedup.claim, "lapsed old", 60),
    "dedup.confirm": lambda store, call, at: call(store.dedup.confirm, "claimed", at.token),
    "dedup.confirm stale": lambda store, call, at: call(store.dedup.confirm, "live", "stale"),
    "dedup.forget stale": lambda store, call, at: call(store.dedup.forget, "live", "stale"),
    "dedup.size": lambda store, call, at: call(store.dedup.size),
    "dedup.scan": lambda store, call, at: call(store.dedup.scan),
    "dedup.clear": lambda store, call, at: call(store.dedup.clear),
}

LOSERS: dict[str, Callable[[Store, Call], Any]] = {
    "kv.add": lambda store, call: call(store.kv.add, "live", "value " * 100),
    "kv.consume": lambda store, call: call(store.kv.consume, "old", "nothing"),
    "kv.delete": lambda store, call: call(store.kv.delete, "old"),
    "kv.touch": lambda store, call: call(store.kv.touch, "old", 60),
    "lock.acquire": lambda store, call: call(store.lock.acquire, "live"),
    "lock.release": lambda store, call: call(store.lock.release, "live", "stale"),
    "lock.extend": lambda store, call: call(store.lock.extend, "live", "stale", 60),
    "lock.force_release": lambda store, call: call(store.lock.force_release, "old"),
    "dedup.seen": lambda store, call: call(store.dedup.seen, "live", 600),
    "dedup.claim pending": lambda store, call: call(store.dedup.claim, "claimed", 60),
    "dedup.claim done": lambda store, call: call(store.dedup.claim, "live", 60),
    "dedup.confirm": lambda store, call: call(store.dedup.confirm, "claimed", "stale"),
    "dedup.forget": lambda store, call: call(store.dedup.forget, "claimed", "stale"),
}


def test_an_operation_is_one_statement(store: Store, call: Call) -> None:
    prepared, counted = Prepared(store), dict[str, int]()
    for name, operate in ONE_STATEMENT.items():
        with CaptureQueriesContext(connections[store.alias]) as sent:
            operate(store, call, prepared)
        counted[name] = len(sent)
    assert counted == dict.fromkeys(ONE_STATEMENT, 1)


def test_a_claim_that_lost_takes_a_second_statement_to_say_why(store: Store, call: Call) -> None:
    Prepared(store)
    with CaptureQueriesContext(connections[store.alias]) as sent:
        assert call(store.dedup.claim, "claimed", 60).state == "pending"
        assert call(store.dedup.claim, "live", 60).state == "done"
    assert len(sent) == 4


def test_a_held_lock_costs_two_statements(store: Store) -> None:
    with CaptureQueriesContext(connections[store.alias]) as sent, store.lock.hold("k"):
        pass
    assert len(sent) == 2


def test_who_loses_writes_nothing(store: Store, call: Call) -> None:
    """Not even the lock of a row: on PostgreSQL that is a write too."""
    Prepared(store)
    written = []
    for name, lose in LOSERS.items():
        with watch(store) as changes:
            assert lose(store, call) in (False, True, None, "nothing") or name.startswith("dedup.claim")
        if changes:
            written.append((name, changes))
    assert written == []


def test_who_wins_is_seen_to_write(store: Store, call: Call) -> None:
    """So that the test above would see it."""
    prepared = Prepared(store)
    winners: dict[str, Callable[[], Any]] = {
        "kv.add": lambda: call(store.kv.add, "old", 1),
        "lock.acquire": lambda: call(store.lock.acquire, "old"),
        "lock.extend": lambda: call(prepared.lock.extend, 60),
        "dedup.seen": lambda: call(store.dedup.seen, "old", 60),
        "dedup.claim": lambda: call(store.dedup.claim, "new", 60),
    }
    for name, win in winners.items():
        with watch(store) as changes:
            win()
        assert changes, name


@contextmanager
def watch(store: Store) -> Iterator[list[str]]:
    """Note what is written meanwhile, as another connection sees it."""
    changes: list[str] = []
    look = look_at_file if connections[store.alias].vendor == "sqlite" else look_at_rows
    with look(store) as state:
        before = state()
        yield changes
        after = state()
        changes += [f"{name} changed" for name in before if before[name] != after[name]]


@contextmanager
def look_at_file(store: Store) -> Iterator[Callable[[], dict[str, Any]]]:
    import sqlite3

    other = sqlite3.connect(connections[store.alias].settings_dict["NAME"])
    try:
        yield lambda: {"the file": other.execute("pragma data_version").fetchone()}
    finally:
        other.close()


@contextmanager
def look_at_rows(store: Store) -> Iterator[Callable[[], dict[str, Any]]]:
    """Look at each row's place, at who wrote it, and at who locked it last."""

    def state() -> dict[str, Any]:
        found: dict[str, Any] = {}
        with connections[store.alias].cursor() as cursor:
            for table in TABLES.values():
                cursor.execute(f"select id, ctid::text, xmin::text, xmax::text from {table} order by id")
                found[table] = [(bytes(row[0]), *row[1:]) for row in cursor.fetchall()]
        return found

    yield state
