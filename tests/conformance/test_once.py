"""dedup.once: a claim that is confirmed by the clean end of a block."""

import pytest
from asgiref.sync import async_to_sync

from django_statestore import Store
from django_statestore.exceptions import ClaimLost
from django_statestore.testing import age


def test_a_clean_end_confirms(store: Store) -> None:
    with store.dedup.once("e", 600) as claim:
        assert claim
        with store.dedup.once("e", 600) as other:
            assert not other
            assert other.state == "pending"
    with store.dedup.once("e", 600) as again:
        assert not again
        assert again.state == "done"


def test_an_exception_forgets(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.dedup.once("e", 600):
        raise ZeroDivisionError
    with store.dedup.once("e", 600) as claim:
        assert claim


def test_a_repeat_leaves_what_was_claimed_alone(store: Store) -> None:
    first = store.dedup.claim("e", 600)
    with pytest.raises(ZeroDivisionError), store.dedup.once("e", 600) as repeat:
        assert not repeat
        raise ZeroDivisionError
    assert first.confirm() is True


def test_a_claim_that_another_took_over_is_told(store: Store) -> None:
    with pytest.raises(ClaimLost), store.dedup.once("e", 600, lease=10):
        age(store, 11)
        assert store.dedup.claim("e", 600)
    with pytest.raises(ZeroDivisionError), store.dedup.once("f", 600, lease=10):
        age(store, 11)
        assert store.dedup.claim("f", 600)
        raise ZeroDivisionError


def test_it_works_in_async_code(store: Store) -> None:
    async def handle() -> list[bool]:
        seen = []
        for _ in range(2):
            async with store.dedup.once("e", 600) as claim:
                seen.append(bool(claim))
        return seen

    assert async_to_sync(handle)() == [True, False]
