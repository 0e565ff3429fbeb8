"""lock: mutual exclusion with a token, a time to live and a fence. How it is held: see test_hold."""

from __future__ import annotations

import hashlib
import itertools
import logging
import pickle
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore import Store
from django_statestore.contracts.lock import Lock
from django_statestore.exceptions import InvalidArgument, InvalidKey, InvalidTTL, StateStoreError
from django_statestore.keys import encode_namespace
from django_statestore.models import LockEntry
from django_statestore.testing import age
from tests.calling import Call
from tests.database.clocks import START, clock_at

from .test_kv import BAD_KEYS, BAD_TTLS, UNLIKE_KEYS

DAY = 86_400


def acquire(store: Store, call: Call, key: str = "k", ttl: Any = 30) -> Lock:
    lock = call(store.lock.acquire, key, ttl)
    assert lock is not None
    return lock


def acquire_as(store: Store, call: Call, token: str, ttl: Any = 30) -> Lock | None:
    """Acquire with a token made before, as a repeat after a lost answer does."""
    from django_statestore.contracts.tokens import token_digest

    primitives = store.lock.primitives
    action = primitives.lock_acquire(store.lock.entry("k"), token_digest(token), int(ttl * 1000))
    fence = action.run()
    return None if fence is None else Lock("k", token, fence, store.lock, time.monotonic() + ttl)


def row(store: Store, key: str = "k") -> LockEntry:
    return LockEntry.objects.using(store.alias).get(namespace=encode_namespace(store.names), key=key)


def purge(store: Store) -> None:
    backend: Any = store.backend
    backend.entries_purge("lock", 1000).run()


# -- exclusion --------------------------------------------------------------------------------------------------------


def test_one_holds_the_lock_and_the_next_gets_none_at_once(store: Store, call: Call) -> None:
    lock = acquire(store, call)
    assert (lock.key, call(store.lock.acquire, "k")) == ("k", None)
    assert call(lock.release) is True
    assert call(store.lock.acquire, "k") is not None


def test_a_lock_is_not_reentrant(store: Store, call: Call) -> None:
    acquire(store, call)
    assert call(store.lock.acquire, "k") is None


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


def test_a_lock_always_has_a_ttl(store: Store, call: Call) -> None:
    started = time.monotonic()
    lock = acquire(store, call)
    assert 29 < lock.expires_in <= 30
    assert lock.expires_in >= 30 - (time.monotonic() - started)
    age(store, 31)
    assert call(store.lock.acquire, "k") is not None
    with pytest.raises(InvalidTTL):
        call(store.lock.acquire, "other", None)  # type: ignore[arg-type]


def test_expires_in_counts_from_before_the_store_was_asked_and_ends_at_zero(store: Store, call: Call) -> None:
    lock = acquire(store, call, ttl=0.001)
    time.sleep(0.002)
    assert lock.expires_in == 0


def test_keys_that_look_alike_are_different_locks(store: Store, call: Call) -> None:
    locks = [acquire(store, call, key) for key in UNLIKE_KEYS]
    assert call(locks[0].release) is True
    assert [call(store.lock.acquire, key) is not None for key in UNLIKE_KEYS] == [True] + [False] * (len(locks) - 1)


def test_namespaces_have_their_own_locks(store: Store, call: Call) -> None:
    first = acquire(store, call)
    second = acquire(store.namespace("nested"), call)
    assert call(store.namespace("nested").lock.release, "k", first.token) is False
    assert call(second.release) is True


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_the_token_travels(store: Store, call: Call) -> None:
    """As plain text, so another process can extend and release."""
    token = pickle.loads(pickle.dumps(acquire(store, call).token))
    assert call(store.lock.extend, "k", token, 60) is True
    assert call(store.lock.release, "k", token) is True
    assert call(store.lock.acquire, "k") is not None


def test_tokens_are_unguessable_and_never_repeat(store: Store, call: Call) -> None:
    tokens = {acquire(store, call, f"k{number}").token for number in range(20)}
    assert len(tokens) == 20
    assert min(map(len, tokens)) >= 32
    assert all(token.isascii() for token in tokens)


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


def test_a_released_lock_cannot_be_extended_or_released_again(store: Store, call: Call) -> None:
    lock = acquire(store, call)
    assert call(lock.release) is True
    assert call(lock.release) is False
    assert call(lock.extend, 60) is None
    assert call(store.lock.acquire, "k") is not None


def test_a_strange_token_or_key_changes_nothing(store: Store, call: Call) -> None:
    lock = acquire(store, call)
    for token in ("x", lock.token + "x", lock.token.swapcase(), " " + lock.token, "\ud800", "\0"):
        assert call(store.lock.release, "k", token) is False
        assert call(store.lock.extend, "k", token, 60) is False
    assert call(store.lock.release, "K", lock.token) is False
    assert call(store.lock.release, "missing", lock.token) is False
    wrong: Any
    for wrong in ("", None, b"x", 1):
        with pytest.raises(InvalidArgument, match="token"):
            call(store.lock.release, "k", wrong)
    assert call(lock.release) is True


def test_the_same_token_recognises_its_own_lock(store: Store, call: Call) -> None:
    """A repeat after a lost answer: the fence stays, the ttl starts anew, and nobody else gets in."""
    lock = acquire(store, call, ttl=10)
    age(store, 9)
    again = acquire_as(store, call, lock.token, ttl=10)
    assert again is not None
    assert again.fence == lock.fence
    age(store, 9)
    assert call(store.lock.acquire, "k") is None
    assert call(lock.release) is True


def test_the_same_token_after_the_end_is_a_new_holder(store: Store, call: Call) -> None:
    lock = acquire(store, call, ttl=10)
    age(store, 11)
    again = acquire_as(store, call, lock.token)
    assert again is not None
    assert again.fence > lock.fence


def test_a_token_that_lost_its_lock_does_not_get_it_back(store: Store, call: Call) -> None:
    lock = acquire(store, call, ttl=10)
    age(store, 11)
    acquire(store, call)
    assert acquire_as(store, call, lock.token) is None


# -- extend and force_release -----------------------------------------------------------------------------------------


def test_extend_sets_the_ttl_from_now_on(store: Store, call: Call) -> None:
    lock = acquire(store, call, ttl=10)
    longer = call(lock.extend, 100)
    assert longer is not None
    assert (longer.token, longer.fence, longer.key) == (lock.token, lock.fence, lock.key)
    assert 99 < longer.expires_in <= 100
    age(store, 99)
    assert call(store.lock.acquire, "k") is None
    assert call(store.lock.extend, "k", lock.token, 5) is True  # also a shorter one
    age(store, 6)
    assert call(store.lock.acquire, "k") is not None


def test_force_release_ends_the_lock_of_anybody(store: Store, call: Call) -> None:
    lock = acquire(store, call)
    assert call(store.lock.force_release, "k") is True
    assert call(store.lock.force_release, "k") is False
    assert call(store.lock.force_release, "missing") is False
    assert call(lock.extend, 60) is None
    assert call(lock.release) is False
    assert acquire(store, call).fence > lock.fence


# -- fences -----------------------------------------------------------------------------------------------------------


def test_fences_rise_over_release_expiry_and_force_release(store: Store, call: Call) -> None:
    fences = []
    for ending in ["release", "expire", "force", "clear"] * 3:
        lock = acquire(store, call)
        fences.append(lock.fence)
        if ending == "release":
            call(lock.release)
        elif ending == "expire":
            age(store, 31)
        elif ending == "force":
            call(store.lock.force_release, "k")
        else:
            call(store.lock.clear)
    assert all(earlier < later for earlier, later in itertools.pairwise(fences))
    assert 0 < fences[0] < fences[-1] < 2**53


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


# -- secrets ----------------------------------------------------------------------------------------------------------


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


# -- refused before anything is sent ----------------------------------------------------------------------------------


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
