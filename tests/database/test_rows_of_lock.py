"""lock on a database: its rows, its statements, and the very instant of an expiry."""

from __future__ import annotations

import hashlib
import logging
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore import Store
from django_statestore.contracts.lock import Lock
from django_statestore.exceptions import InvalidKey, InvalidTTL, StateStoreError
from django_statestore.keys import encode_namespace
from django_statestore.models import LockEntry
from django_statestore.testing import age
from django_statestore.testing.conformance.cases import BAD_KEYS, BAD_TTLS
from tests.calling import Call
from tests.database.clocks import START, clock_at

DAY = 86_400


def acquire(store: Store, call: Call, key: str = "k", ttl: Any = 30) -> Lock:
    lock = call(store.lock.acquire, key, ttl)
    assert lock is not None
    return lock


def row(store: Store, key: str = "k") -> LockEntry:
    return LockEntry.objects.using(store.alias).get(namespace=encode_namespace(store.names), key=key)


def purge(store: Store) -> None:
    backend: Any = store.backend
    backend.entries_purge("lock", 1000).run()


def test_a_lock_ends_with_its_ttl_though_nobody_purged_it(store: Store, call: Call) -> None:
    first = acquire(store, call, ttl=10)
    age(store, 11)
    assert row(store).fence == first.fence
    second = acquire(store, call)
    assert second.token != first.token


def test_a_lock_lives_only_while_its_expiry_lies_ahead(store: Store, call: Call) -> None:
    def at(milliseconds: int, operation: str, *arguments: Any) -> Any:
        with clock_at(store, 0):
            call(store.lock.force_release, "k")
            lock = acquire(store, call, ttl=5)
        arguments = tuple(lock.token if each == "token" else each for each in arguments)
        with clock_at(store, milliseconds):
            return call(getattr(store.lock, operation), *arguments)

    assert at(4999, "acquire", "k") is None
    with clock_at(store, 5000):
        assert call(store.lock.acquire, "k") is not None
        call(store.lock.clear)
    assert at(4999, "release", "k", "token") is True
    assert at(5000, "release", "k", "token") is False
    assert at(4999, "extend", "k", "token", 1) is True
    assert at(5000, "extend", "k", "token", 1) is False
    assert at(4999, "force_release", "k") is True
    assert at(5000, "force_release", "k") is False
    assert at(4999, "size") == 1
    assert at(5000, "size") == 0


def test_a_stale_token_changes_nothing(store: Store, call: Call) -> None:
    first = acquire(store, call, ttl=1)
    age(store, 2)
    second = acquire(store, call, ttl=5)
    before = row(store)
    assert call(store.lock.release, "k", first.token) is False
    assert call(store.lock.extend, "k", first.token, 600) is False
    assert call(first.release) is False
    assert call(first.extend, 600) is None
    after = row(store)
    assert (after.token, after.fence, after.expires_at) == (before.token, before.fence, before.expires_at)
    assert call(store.lock.acquire, "k") is None
    assert call(second.release) is True


def test_an_expired_lock_cannot_be_extended_or_released_even_when_nobody_took_it(store: Store, call: Call) -> None:
    lock = acquire(store, call, ttl=1)
    age(store, 2)
    before = row(store).expires_at
    assert call(lock.extend, 60) is None
    assert call(lock.release) is False
    assert row(store).expires_at == before
    assert call(store.lock.acquire, "k") is not None


def test_the_fence_is_kept_for_a_day_and_rises_above_the_clock(store: Store, call: Call) -> None:
    """Within the day the row decides, so a clock that is set back does no harm."""
    with clock_at(store, 1_000_000):
        lock = acquire(store, call, ttl=10)
        assert lock.fence == (START + 1_000_000) * 1000
    with clock_at(store, 0):  # the clock was set back
        call(store.lock.force_release, "k")
        purge(store)
        assert acquire(store, call, ttl=10).fence == lock.fence + 1
        assert call(store.lock.acquire, "k") is None


def test_the_fence_follows_the_clock_where_it_is_ahead(store: Store, call: Call) -> None:
    with clock_at(store, 0):
        acquire(store, call, ttl=10)
    with clock_at(store, 60_000):
        assert acquire(store, call, ttl=10).fence == (START + 60_000) * 1000


def test_a_lock_is_purged_a_day_after_its_end(store: Store, call: Call) -> None:
    lock = acquire(store, call, ttl=10)
    call(lock.release)
    age(store, DAY - 60)
    purge(store)
    assert row(store).fence == lock.fence
    age(store, 120)
    purge(store)
    assert not LockEntry.objects.using(store.alias).filter(namespace=encode_namespace(store.names)).exists()
    assert acquire(store, call).fence > lock.fence


def test_each_key_has_its_own_fence(store: Store, call: Call) -> None:
    with clock_at(store, 0):
        for _ in range(3):
            call(acquire(store, call, "a", ttl=10).release)
        assert acquire(store, call, "b", ttl=10).fence == START * 1000


def test_the_database_holds_a_digest_of_the_token(store: Store, call: Call) -> None:
    lock = acquire(store, call)
    stored = row(store)
    assert stored.token == hashlib.sha256(lock.token.encode()).digest()
    with connections[store.alias].cursor() as cursor:
        cursor.execute("select * from statestore_lock")
        assert lock.token not in str([tuple(map(_readable, each)) for each in cursor.fetchall()])


def _readable(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def test_a_token_is_never_shown(store: Store, call: Call, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with CaptureQueriesContext(connections[store.alias]) as sent:  # Django logs these statements
        lock = acquire(store, call)
        call(store.lock.extend, "k", lock.token, 30)
        call(lock.release)
        call(lock.release)
    shown = [repr(lock), str(lock), f"{lock}", repr(store.lock), str(sent.captured_queries), caplog.text]
    assert len(sent) == 4
    for error in (lambda: call(lock.extend, 0), lambda: call(store.lock.release, "", lock.token)):
        with pytest.raises(StateStoreError) as caught:
            error()
        shown.append(repr(caught.value))
    assert not [text for text in shown if lock.token in text]


def test_a_bad_key_or_ttl_is_refused_before_the_backend_is_touched(store: Store, call: Call) -> None:
    operations: dict[str, list[Any]] = {"acquire": [30], "release": ["x"], "extend": ["x", 30], "force_release": []}
    with CaptureQueriesContext(connections[store.alias]) as sent:
        for key in BAD_KEYS:
            for operation, arguments in operations.items():
                with pytest.raises(InvalidKey):
                    call(getattr(store.lock, operation), key, *arguments)
            with pytest.raises(InvalidKey):
                store.lock.hold(key).__enter__()
        for ttl in [*BAD_TTLS, None, timedelta.max]:
            with pytest.raises(InvalidTTL):
                call(store.lock.acquire, "k", ttl)
            with pytest.raises(InvalidTTL):
                call(store.lock.extend, "k", "x", ttl)
            with pytest.raises(InvalidTTL):
                store.lock.hold("k", ttl)
        for wait in (-1, True, float("nan"), None):
            wrong: Any = wait
            with pytest.raises(InvalidTTL, match="wait"):
                store.lock.hold("k", 30, wrong)
    assert len(sent) == 0
