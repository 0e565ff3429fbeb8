"""lock: mutual exclusion with a token, a time to live and a fence. How it is held: see hold."""

from __future__ import annotations

import itertools
import pickle
import time
from datetime import timedelta
from typing import Any

import pytest

from ...contracts.lock import Lock
from ...exceptions import InvalidArgument, InvalidKey, InvalidTTL
from ...store import Store
from .base import Conformance, later, purge
from .calling import Call
from .cases import BAD_KEYS, BAD_TTLS, ODD_KEYS, UNLIKE_KEYS

DAY = 86_400


def acquire(store: Store, call: Call, key: str = "k", ttl: Any = 60) -> Lock:
    lock = call(store.lock.acquire, key, ttl)
    assert lock is not None
    return lock


def acquire_as(store: Store, call: Call, token: str, ttl: Any = 60) -> Lock | None:
    """Acquire with a token made before, as a repeat after a lost answer does."""
    return call.flow(store.lock.acquire_as_flow("k", ttl, token))


class LockConformance(Conformance):
    """Hold a backend to the rules of ``store.lock``."""

    # -- exclusion ----------------------------------------------------------------------------------------------------

    def test_one_holds_the_lock_and_the_next_gets_none_at_once(self, store: Store, call: Call) -> None:
        lock = acquire(store, call)
        assert (lock.key, call(store.lock.acquire, "k")) == ("k", None)
        assert call(lock.release) is True
        assert call(store.lock.acquire, "k") is not None

    def test_a_lock_is_not_reentrant(self, store: Store, call: Call) -> None:
        acquire(store, call)
        assert call(store.lock.acquire, "k") is None

    @pytest.mark.parametrize("purged", [False, True], ids=["unpurged", "purged"])
    def test_a_lock_ends_with_its_ttl_whether_or_not_it_was_purged(
        self, store: Store, call: Call, purged: bool
    ) -> None:
        first = acquire(store, call, ttl=60)
        later(store, 50)
        assert call(store.lock.acquire, "k") is None
        later(store, 11)
        if purged:
            purge(store)
        assert call(store.lock.size) == 0
        second = acquire(store, call)
        assert second.token != first.token
        assert second.fence > first.fence

    def test_a_lock_has_thirty_seconds_unless_told_otherwise(self, store: Store, call: Call) -> None:
        started = time.monotonic()
        lock = call(store.lock.acquire, "k")
        assert lock is not None
        assert 30 - (time.monotonic() - started) <= lock.expires_in <= 30
        later(store, 31)
        assert call(store.lock.acquire, "k") is not None

    def test_a_lock_always_has_a_ttl(self, store: Store, call: Call) -> None:
        with pytest.raises(InvalidTTL):
            call(store.lock.acquire, "k", None)  # type: ignore[arg-type]
        assert call(store.lock.acquire, "k") is not None

    def test_expires_in_counts_from_before_the_store_was_asked_and_ends_at_zero(self, store: Store, call: Call) -> None:
        lock = acquire(store, call, ttl=0.001)
        time.sleep(0.002)
        assert lock.expires_in == 0

    def test_keys_that_look_alike_are_different_locks(self, store: Store, call: Call) -> None:
        keys = UNLIKE_KEYS + ODD_KEYS
        locks = [acquire(store, call, key) for key in keys]
        assert call(locks[0].release) is True
        assert [call(store.lock.acquire, key) is not None for key in keys] == [True] + [False] * (len(keys) - 1)

    def test_namespaces_have_their_own_locks(self, store: Store, call: Call) -> None:
        first = acquire(store, call)
        second = acquire(store.namespace("nested"), call)
        assert call(store.namespace("nested").lock.release, "k", first.token) is False
        assert call(second.release) is True

    # -- tokens -------------------------------------------------------------------------------------------------------

    def test_the_token_travels_as_plain_text(self, store: Store, call: Call) -> None:
        token = pickle.loads(pickle.dumps(acquire(store, call).token))
        assert call(store.lock.extend, "k", token, 60) is True
        assert call(store.lock.release, "k", token) is True
        assert call(store.lock.acquire, "k") is not None

    def test_tokens_are_unguessable_and_never_repeat(self, store: Store, call: Call) -> None:
        tokens = {acquire(store, call, f"k{number}").token for number in range(20)}
        assert len(tokens) == 20
        assert min(map(len, tokens)) >= 32
        assert all(token.isascii() for token in tokens)

    def test_a_stale_token_changes_nothing(self, store: Store, call: Call) -> None:
        first = acquire(store, call, ttl=1)
        later(store, 2)
        second = acquire(store, call, ttl=60)
        assert call(store.lock.release, "k", first.token) is False
        assert call(store.lock.extend, "k", first.token, 600) is False
        assert call(first.release) is False
        assert call(first.extend, 600) is None
        assert call(store.lock.acquire, "k") is None
        later(store, 30)
        assert call(store.lock.extend, "k", second.token, 60) is True
        later(store, 61)  # nor was the end of the lock moved
        assert call(store.lock.acquire, "k") is not None

    def test_an_expired_lock_cannot_be_extended_or_released_even_when_nobody_took_it(
        self, store: Store, call: Call
    ) -> None:
        lock = acquire(store, call, ttl=1)
        later(store, 2)
        assert call(lock.extend, 60) is None
        assert call(lock.release) is False
        assert call(store.lock.size) == 0
        assert call(store.lock.acquire, "k") is not None

    def test_a_released_lock_cannot_be_extended_or_released_again(self, store: Store, call: Call) -> None:
        lock = acquire(store, call)
        assert call(lock.release) is True
        assert call(lock.release) is False
        assert call(lock.extend, 60) is None
        assert call(store.lock.acquire, "k") is not None

    def test_a_strange_token_or_key_changes_nothing(self, store: Store, call: Call) -> None:
        lock = acquire(store, call)
        for token in ("x", lock.token + "x", lock.token.swapcase(), " " + lock.token, "\ud800", "\0"):
            assert call(store.lock.release, "k", token) is False
            assert call(store.lock.extend, "k", token, 60) is False
        assert call(store.lock.release, "K", lock.token) is False
        assert call(store.lock.release, "missing", lock.token) is False
        assert call(store.lock.acquire, "k") is None
        assert call(lock.release) is True

    def test_what_is_no_token_is_refused(self, store: Store, call: Call) -> None:
        wrong: Any
        for wrong in ("", None, b"x", 1):
            with pytest.raises(InvalidArgument, match="token"):
                call(store.lock.release, "k", wrong)
            with pytest.raises(InvalidArgument, match="token"):
                call(store.lock.extend, "k", wrong, 60)

    def test_the_same_token_recognises_its_own_lock(self, store: Store, call: Call) -> None:
        """A repeat after a lost answer: the fence stays, the ttl starts anew, and nobody else gets in."""
        lock = acquire(store, call, ttl=60)
        later(store, 40)
        again = acquire_as(store, call, lock.token, ttl=60)
        assert again is not None
        assert again.fence == lock.fence
        later(store, 40)
        assert call(store.lock.acquire, "k") is None
        assert call(lock.release) is True

    def test_the_same_token_after_the_end_is_a_new_holder(self, store: Store, call: Call) -> None:
        lock = acquire(store, call, ttl=10)
        later(store, 11)
        again = acquire_as(store, call, lock.token)
        assert again is not None
        assert again.fence > lock.fence

    def test_a_token_that_lost_its_lock_does_not_get_it_back(self, store: Store, call: Call) -> None:
        lock = acquire(store, call, ttl=10)
        later(store, 11)
        acquire(store, call)
        assert acquire_as(store, call, lock.token) is None

    # -- extend and force_release -------------------------------------------------------------------------------------

    def test_extend_sets_the_ttl_from_now_on(self, store: Store, call: Call) -> None:
        lock = acquire(store, call, ttl=10)
        longer = call(lock.extend, 100)
        assert longer is not None
        assert (longer.token, longer.fence, longer.key) == (lock.token, lock.fence, lock.key)
        assert 60 < longer.expires_in <= 100
        later(store, 60)
        assert call(store.lock.acquire, "k") is None
        assert call(store.lock.extend, "k", lock.token, 5) is True  # also a shorter one
        later(store, 6)
        assert call(store.lock.acquire, "k") is not None

    def test_force_release_ends_the_lock_of_anybody(self, store: Store, call: Call) -> None:
        lock = acquire(store, call)
        assert call(store.lock.force_release, "k") is True
        assert call(store.lock.force_release, "k") is False
        assert call(store.lock.force_release, "missing") is False
        assert call(lock.extend, 60) is None
        assert call(lock.release) is False
        assert acquire(store, call).fence > lock.fence

    def test_force_release_finds_no_lock_that_is_over(self, store: Store, call: Call) -> None:
        acquire(store, call, ttl=10)
        later(store, 11)
        assert call(store.lock.force_release, "k") is False

    # -- fences -------------------------------------------------------------------------------------------------------

    def test_fences_rise_over_release_expiry_force_release_and_clear(self, store: Store, call: Call) -> None:
        fences = []
        for ending in ["release", "expire", "force", "clear", "purge"] * 3:
            lock = acquire(store, call)
            fences.append(lock.fence)
            match ending:
                case "release":
                    call(lock.release)
                case "expire":
                    later(store, 61)
                case "force":
                    call(store.lock.force_release, "k")
                case "clear":
                    call(store.lock.clear)
                case _:
                    later(store, 2 * DAY)
                    purge(store)
                    time.sleep(0.002)  # two days without a tick of the clock, out of which the fence is made, are none
        assert all(earlier < afterwards for earlier, afterwards in itertools.pairwise(fences))
        assert 0 < fences[0] < fences[-1] < 2**53

    def test_an_extended_lock_keeps_its_fence(self, store: Store, call: Call) -> None:
        lock = acquire(store, call)
        call(lock.extend, 60)
        again = acquire_as(store, call, lock.token)
        assert again is not None
        assert again.fence == lock.fence

    # -- what is refused ----------------------------------------------------------------------------------------------

    def test_a_bad_key_ttl_or_wait_is_refused(self, store: Store, call: Call) -> None:
        operations: dict[str, list[Any]] = {"acquire": [30], "release": ["x"], "extend": ["x", 30], "force_release": []}
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
        wrong: Any
        for wrong in (-1, True, float("nan"), None):
            with pytest.raises(InvalidTTL, match="wait"):
                store.lock.hold("k", 30, wrong)
        assert call(store.lock.size) == 0
