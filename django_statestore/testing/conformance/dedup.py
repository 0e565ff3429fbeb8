"""dedup: windows in which an event counts once. The context manager over it: see once."""

from __future__ import annotations

from typing import Any

import pytest

from ...contracts.dedup import Claim
from ...contracts.tokens import token_digest
from ...exceptions import InvalidArgument, InvalidKey, InvalidTTL
from ...keys import Scope
from ...store import Store
from .base import Conformance, later, purge
from .calling import Call
from .cases import BAD_KEYS, BAD_TTLS, ODD_KEYS, UNLIKE_KEYS

by_purge = pytest.mark.parametrize("purged", [False, True], ids=["unpurged", "purged"])


def claim(store: Store, call: Call, ttl: float = 600, lease: float = 60) -> Claim:
    return call(store.dedup.claim, "e", ttl, lease)


class DedupConformance(Conformance):
    """Hold a backend to the rules of ``store.dedup``."""

    # -- seen ---------------------------------------------------------------------------------------------------------

    def test_the_first_sighting_is_new_and_a_repeat_is_not(self, store: Store, call: Call) -> None:
        assert [call(store.dedup.seen, "e", 60) for _ in range(3)] == [False, True, True]
        assert call(store.dedup.seen, "other", 60) is False

    def test_the_window_is_fixed_from_the_first_sighting(self, store: Store, call: Call) -> None:
        """A repeat neither slides it, nor prolongs it by a longer ttl of its own."""
        for repeat in (60, 6000):
            assert call(store.dedup.seen, "e", 60) is False
            later(store, 40)
            assert call(store.dedup.seen, "e", repeat) is True
            later(store, 21)
        assert call(store.dedup.seen, "e", 60) is False

    @by_purge
    def test_a_window_that_is_over_counts_as_absent_whether_or_not_it_was_purged(
        self, store: Store, call: Call, purged: bool
    ) -> None:
        for again in ("seen", "claim"):
            call(store.dedup.seen, again, 1)
            later(store, 2)
            if purged:
                purge(store)
            assert call(store.dedup.size) == 0
            if again == "seen":
                assert call(store.dedup.seen, again, 1) is False
            else:
                assert call(store.dedup.claim, again, 1).state == "new"
            call(store.dedup.clear)

    def test_keys_that_look_alike_are_different_events(self, store: Store, call: Call) -> None:
        keys = UNLIKE_KEYS + ODD_KEYS
        assert [call(store.dedup.seen, key, 60) for key in keys] == [False] * len(keys)
        assert [call(store.dedup.seen, key, 60) for key in keys] == [True] * len(keys)

    def test_namespaces_have_their_own_events(self, store: Store, call: Call) -> None:
        """Two bots whose ids begin again at 1, and a separator in a name."""
        for names in [("bot-a",), ("bot-b",), (), ("bot-a", "x"), ("bot-a/x",), ("bot-a:1",)]:
            assert call(store.namespace(*names).dedup.seen, "1", 60) is False

    # -- claim --------------------------------------------------------------------------------------------------------

    def test_a_claim_is_new_once_then_pending_then_done(self, store: Store, call: Call) -> None:
        first = claim(store, call)
        assert (first.state, first.key, bool(first)) == ("new", "e", True)
        second = claim(store, call)
        assert (second.state, second.token, bool(second)) == ("pending", None, False)
        assert call(first.confirm) is True
        third = claim(store, call)
        assert (third.state, third.token, bool(third)) == ("done", None, False)

    def test_a_claim_ends_with_its_lease_and_the_next_sighting_is_new(self, store: Store, call: Call) -> None:
        claim(store, call, ttl=600, lease=60)
        later(store, 40)
        assert claim(store, call).state == "pending"
        later(store, 21)
        assert claim(store, call).state == "new"

    def test_a_confirmed_window_lasts_from_the_claim_on(self, store: Store, call: Call) -> None:
        first = claim(store, call, ttl=600, lease=60)
        later(store, 40)
        assert call(first.confirm) is True
        later(store, 530)
        assert claim(store, call).state == "done"
        later(store, 31)
        assert claim(store, call).state == "new"

    def test_a_pending_claim_does_not_outlast_its_lease_for_the_sake_of_the_window(
        self, store: Store, call: Call
    ) -> None:
        claim(store, call, ttl=600, lease=10)
        later(store, 11)
        assert call(store.dedup.seen, "e", 60) is False

    def test_forget_gives_the_event_back(self, store: Store, call: Call) -> None:
        first = claim(store, call)
        assert call(first.forget) is True
        assert call(first.forget) is False
        assert call(first.confirm) is False
        assert claim(store, call).state == "new"

    def test_a_claim_that_was_taken_over_can_neither_be_confirmed_nor_forgotten(self, store: Store, call: Call) -> None:
        first = claim(store, call, lease=10)
        later(store, 11)
        second = claim(store, call, lease=60)
        assert second.state == "new"
        assert call(first.confirm) is False
        assert call(first.forget) is False
        assert claim(store, call).state == "pending"
        assert call(second.confirm) is True
        assert call(first.forget) is False
        assert claim(store, call).state == "done"

    def test_a_claim_that_a_sighting_took_over_cannot_be_confirmed(self, store: Store, call: Call) -> None:
        first = claim(store, call, ttl=6000, lease=10)
        later(store, 11)
        assert call(store.dedup.seen, "e", 60) is False
        assert call(first.confirm) is False
        assert call(first.forget) is False
        later(store, 61)
        assert call(store.dedup.seen, "e", 60) is False

    @by_purge
    def test_a_late_confirm_counts_while_nobody_took_over_whether_or_not_a_purge_ran(
        self, store: Store, call: Call, purged: bool
    ) -> None:
        first = claim(store, call, ttl=600, lease=10)
        later(store, 11)
        if purged:
            purge(store)
        assert call(first.confirm) is True
        assert claim(store, call).state == "done"
        later(store, 590)
        assert claim(store, call).state == "new"

    @by_purge
    @pytest.mark.parametrize("settle", ["confirm", "forget"])
    def test_when_lease_and_window_are_over_there_is_nothing_left_to_settle(
        self, store: Store, call: Call, settle: str, purged: bool
    ) -> None:
        first = claim(store, call, ttl=600, lease=10)
        later(store, 601)
        if purged:
            purge(store)
        assert call(getattr(first, settle)) is False
        assert claim(store, call).state == "new"

    @by_purge
    def test_a_lease_may_be_longer_than_the_window(self, store: Store, call: Call, purged: bool) -> None:
        first = claim(store, call, ttl=10, lease=60)
        later(store, 11)
        assert claim(store, call).state == "pending"
        if purged:
            purge(store)
        assert call(first.confirm) is True
        assert claim(store, call).state == "new"

    def test_a_seen_event_is_done_and_a_claimed_one_is_seen(self, store: Store, call: Call) -> None:
        call(store.dedup.seen, "e", 60)
        assert claim(store, call).state == "done"
        call(store.dedup.clear)
        first = claim(store, call)
        assert call(store.dedup.seen, "e", 60) is True
        assert call(first.confirm) is True
        assert call(store.dedup.seen, "e", 60) is True

    def test_what_is_not_ones_own_can_neither_be_confirmed_nor_forgotten(self, store: Store, call: Call) -> None:
        claim(store, call)
        pending = claim(store, call)
        assert call(pending.confirm) is False
        assert call(pending.forget) is False
        assert claim(store, call).state == "pending"

    # -- tokens -------------------------------------------------------------------------------------------------------

    def test_the_token_travels_as_plain_text(self, store: Store, call: Call) -> None:
        first = claim(store, call)
        assert first.token is not None
        assert len(first.token) >= 32
        assert call(store.dedup.confirm, "other", first.token) is False
        assert call(store.dedup.confirm, "e", first.token + "x") is False
        assert call(store.namespace("other").dedup.confirm, "e", first.token) is False
        assert call(store.dedup.confirm, "e", first.token) is True
        assert call(store.dedup.forget, "e", first.token) is False  # it is done, and stays so
        assert claim(store, call).state == "done"

    def test_forget_by_token(self, store: Store, call: Call) -> None:
        first = claim(store, call)
        assert first.token is not None
        assert call(store.dedup.forget, "e", first.token) is True
        assert claim(store, call).state == "new"

    def test_the_same_token_recognises_its_own_claim(self, store: Store, call: Call) -> None:
        """A repeat after a lost answer."""
        backend: Any = store.backend
        entry, token = Scope("dedup", store.names).entry("e"), token_digest("mine")

        def ask() -> Any:
            return (yield from backend.dedup_claim(entry, token, 600_000, 60_000))

        assert [call.flow(ask()) for _ in range(2)] == ["new", "new"]
        assert claim(store, call).state == "pending"

    # -- what is refused ----------------------------------------------------------------------------------------------

    def test_bad_input_is_refused(self, store: Store, call: Call) -> None:
        for key in BAD_KEYS:
            with pytest.raises(InvalidKey):
                call(store.dedup.seen, key, 60)
            with pytest.raises(InvalidKey):
                call(store.dedup.claim, key, 60)
            for settle in (store.dedup.confirm, store.dedup.forget):
                with pytest.raises(InvalidKey):
                    call(settle, key, "token")
        for ttl in [*BAD_TTLS, None]:
            with pytest.raises(InvalidTTL):
                call(store.dedup.seen, "e", ttl)
            with pytest.raises(InvalidTTL):
                call(store.dedup.claim, "e", ttl)
            with pytest.raises(InvalidTTL, match="lease"):
                call(store.dedup.claim, "e", 60, ttl)
        wrong: Any
        for wrong in ("", b"x", 1):
            for settle in (store.dedup.confirm, store.dedup.forget):
                with pytest.raises(InvalidArgument):
                    call(settle, "e", wrong)
        assert call(store.dedup.size) == 0
