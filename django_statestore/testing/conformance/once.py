"""dedup.once: a claim that is confirmed by the clean end of a block."""

from __future__ import annotations

from functools import partial

import pytest

from ...contracts.dedup import Claim
from ...exceptions import ClaimLost
from ...store import Store
from .base import Conformance, later
from .calling import Call


def fail(claim: Claim) -> None:
    raise ZeroDivisionError


class OnceConformance(Conformance):
    """Hold a backend to the rules of ``store.dedup.once``."""

    def test_a_clean_end_confirms(self, store: Store, call: Call) -> None:
        def body(claim: Claim) -> None:
            assert claim
            assert store.dedup.claim("e", 600).state == "pending"

        call.block(store.dedup.once("e", 600), body)
        assert call.block(store.dedup.once("e", 600), lambda again: (bool(again), again.state)) == (False, "done")

    def test_a_block_within_the_block_sees_that_it_is_pending(self, store: Store) -> None:
        with store.dedup.once("e", 600), store.dedup.once("e", 600) as other:
            assert (bool(other), other.state) == (False, "pending")
        assert store.dedup.claim("e", 600).state == "done"

    def test_an_exception_forgets(self, store: Store, call: Call) -> None:
        with pytest.raises(ZeroDivisionError):
            call.block(store.dedup.once("e", 600), fail)
        assert call.block(store.dedup.once("e", 600), bool) is True

    def test_a_repeat_leaves_what_was_claimed_alone(self, store: Store, call: Call) -> None:
        first = store.dedup.claim("e", 600)
        with pytest.raises(ZeroDivisionError):
            call.block(store.dedup.once("e", 600), fail)
        call.block(store.dedup.once("e", 600), bool)
        assert store.dedup.claim("e", 600).state == "pending"
        assert first.confirm() is True

    def test_a_claim_that_another_took_over_is_told(self, store: Store, call: Call) -> None:
        def body(claim: Claim, *, fails: bool) -> None:
            later(store, 11)
            assert store.dedup.claim(claim.key, 600)
            if fails:
                raise ZeroDivisionError

        with pytest.raises(ClaimLost):
            call.block(store.dedup.once("e", 600, lease=10), partial(body, fails=False))
        with pytest.raises(ZeroDivisionError):  # the body's own error is the one to see
            call.block(store.dedup.once("f", 600, lease=10), partial(body, fails=True))

    def test_one_manager_may_be_used_again(self, store: Store, call: Call) -> None:
        manager = store.dedup.once("e", 600)
        assert [call.block(manager, bool) for _ in range(2)] == [True, False]
