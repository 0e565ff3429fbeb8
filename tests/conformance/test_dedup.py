"""dedup: windows in which an event counts once."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_statestore import Store
from django_statestore.contracts.dedup import Claim
from django_statestore.exceptions import InvalidArgument, InvalidKey, InvalidTTL
from django_statestore.keys import encode_namespace
from django_statestore.models import DedupEntry
from django_statestore.testing import age
from tests.calling import Call
from tests.database.clocks import clock_at

from .test_kv import BAD_KEYS, BAD_TTLS, UNLIKE_KEYS


def rows(store: Store) -> list[DedupEntry]:
    return list(DedupEntry.objects.using(store.alias).filter(namespace=encode_namespace(store.names)))


def purge(store: Store) -> int:
    backend: Any = store.backend
    return int(backend.entries_purge("dedup", 1000).run())


def claim(store: Store, call: Call, ttl: float = 600, lease: float = 60) -> Claim:
    return call(store.dedup.claim, "e", ttl, lease)


# -- seen -------------------------------------------------------------------------------------------------------------


def test_the_first_sighting_is_new_and_a_repeat_is_not(store: Store, call: Call) -> None:
    assert [call(store.dedup.seen, "e", 60) for _ in range(3)] == [False, True, True]
    assert call(store.dedup.seen, "other", 60) is False


def test_the_window_is_fixed_from_the_first_sighting(store: Store, call: Call) -> None:
    assert call(store.dedup.seen, "e", 10) is False
    age(store, 8)
    assert call(store.dedup.seen, "e", 10) is True
    age(store, 3)
    assert call(store.dedup.seen, "e", 10) is False


def test_a_repeat_writes_nothing(store: Store, call: Call) -> None:
    call(store.dedup.seen, "e", 10)
    before = rows(store)[0].expires_at
    assert call(store.dedup.seen, "e", 6000) is True
    assert rows(store)[0].expires_at == before


def test_a_window_that_is_over_counts_as_absent_though_nobody_purged_it(store: Store, call: Call) -> None:
    call(store.dedup.seen, "e", 1)
    age(store, 2)
    assert len(rows(store)) == 1
    assert call(store.dedup.size) == 0
    assert call(store.dedup.seen, "e", 1) is False
    age(store, 2)
    assert call(store.dedup.claim, "e", 1).state == "new"
    assert len(rows(store)) == 1


def test_a_window_lasts_only_while_its_end_lies_ahead(store: Store, call: Call) -> None:
    for milliseconds, expected in ((4999, True), (5000, False)):
        with clock_at(store, 0):
            call(store.dedup.clear)
            call(store.dedup.seen, "e", 5)
        with clock_at(store, milliseconds):
            assert call(store.dedup.size) == int(expected)
            assert call(store.dedup.seen, "e", 5) is expected


def test_keys_that_look_alike_are_different_events(store: Store, call: Call) -> None:
    assert [call(store.dedup.seen, key, 60) for key in UNLIKE_KEYS] == [False] * len(UNLIKE_KEYS)
    assert [call(store.dedup.seen, key, 60) for key in UNLIKE_KEYS] == [True] * len(UNLIKE_KEYS)


def test_namespaces_have_their_own_events(store: Store, call: Call) -> None:
    """Two bots whose ids begin again at 1, and a separator in a name."""
    for names, key in [(("bot-a",), "1"), (("bot-b",), "1"), ((), "1"), (("bot-a", "x"), "1"), (("bot-a/x",), "1")]:
        assert call(store.namespace(*names).dedup.seen, key, 60) is False


# -- claim ------------------------------------------------------------------------------------------------------------


def test_a_claim_is_new_once_then_pending_then_done(store: Store, call: Call) -> None:
    first = claim(store, call)
    assert (first.state, first.key, bool(first)) == ("new", "e", True)
    second = claim(store, call)
    assert (second.state, second.token, bool(second)) == ("pending", None, False)
    assert call(first.confirm) is True
    third = claim(store, call)
    assert (third.state, third.token, bool(third)) == ("done", None, False)


def test_a_claim_ends_with_its_lease_and_the_next_sighting_is_new(store: Store, call: Call) -> None:
    claim(store, call, ttl=600, lease=10)
    age(store, 9)
    assert claim(store, call).state == "pending"
    age(store, 2)
    assert claim(store, call).state == "new"


def test_a_lease_lasts_only_while_its_end_lies_ahead(store: Store, call: Call) -> None:
    with clock_at(store, 0):
        claim(store, call, lease=5)
    with clock_at(store, 4999):
        assert claim(store, call, lease=5).state == "pending"
    with clock_at(store, 5000):
        assert claim(store, call, lease=5).state == "new"


def test_a_confirmed_window_lasts_from_the_claim_on(store: Store, call: Call) -> None:
    with clock_at(store, 0):
        first = claim(store, call, ttl=600, lease=60)
    with clock_at(store, 59_000):
        assert call(first.confirm) is True
    with clock_at(store, 599_999):
        assert claim(store, call).state == "done"
    with clock_at(store, 600_000):
        assert claim(store, call).state == "new"


def test_a_pending_claim_does_not_outlast_its_lease_for_the_sake_of_the_window(store: Store, call: Call) -> None:
    claim(store, call, ttl=600, lease=10)
    age(store, 11)
    assert call(store.dedup.seen, "e", 60) is False


def test_forget_gives_the_event_back(store: Store, call: Call) -> None:
    first = claim(store, call)
    assert call(first.forget) is True
    assert call(first.forget) is False
    assert call(first.confirm) is False
    assert claim(store, call).state == "new"


def test_a_claim_that_was_taken_over_can_neither_be_confirmed_nor_forgotten(store: Store, call: Call) -> None:
    first = claim(store, call, lease=10)
    age(store, 11)
    second = claim(store, call, lease=10)
    assert second.state == "new"
    assert call(first.confirm) is False
    assert call(first.forget) is False
    assert claim(store, call).state == "pending"
    assert call(second.confirm) is True
    assert call(first.forget) is False
    assert claim(store, call).state == "done"


def test_a_claim_that_a_sighting_took_over_cannot_be_confirmed(store: Store, call: Call) -> None:
    first = claim(store, call, ttl=6000, lease=10)
    age(store, 11)
    assert call(store.dedup.seen, "e", 60) is False
    assert call(first.confirm) is False
    assert call(first.forget) is False
    age(store, 61)
    assert call(store.dedup.seen, "e", 60) is False


@pytest.mark.parametrize("purged", [False, True])
def test_a_late_confirm_counts_while_nobody_took_over_whether_or_not_a_purge_ran(
    store: Store, call: Call, purged: bool
) -> None:
    first = claim(store, call, ttl=600, lease=10)
    age(store, 11)
    if purged:
        purge(store)
    assert call(first.confirm) is True
    assert claim(store, call).state == "done"
    age(store, 590)
    assert claim(store, call).state == "new"


@pytest.mark.parametrize("purged", [False, True])
@pytest.mark.parametrize("settle", ["confirm", "forget"])
def test_when_lease_and_window_are_over_there_is_nothing_left_to_settle(
    store: Store, call: Call, settle: str, purged: bool
) -> None:
    first = claim(store, call, ttl=600, lease=10)
    age(store, 601)
    if purged:
        purge(store)
    assert call(getattr(first, settle)) is False
    assert claim(store, call).state == "new"


def test_a_lease_may_be_longer_than_the_window(store: Store, call: Call) -> None:
    first = claim(store, call, ttl=10, lease=60)
    age(store, 11)
    assert claim(store, call).state == "pending"
    purge(store)
    assert call(first.confirm) is True
    assert claim(store, call).state == "new"


def test_a_purge_takes_what_can_no_longer_matter(store: Store, call: Call) -> None:
    claim(store, call, ttl=600, lease=10)
    call(store.dedup.seen, "window", 20)
    age(store, 21)
    purge(store)
    assert [each.key for each in rows(store)] == ["e"]
    age(store, 600)
    purge(store)
    assert rows(store) == []


def test_a_seen_event_is_done_and_a_claimed_one_is_seen(store: Store, call: Call) -> None:
    call(store.dedup.seen, "e", 60)
    assert claim(store, call).state == "done"
    store.dedup.clear()
    first = claim(store, call)
    assert call(store.dedup.seen, "e", 60) is True
    assert call(first.confirm) is True
    assert call(store.dedup.seen, "e", 60) is True


def test_what_is_not_ones_own_can_neither_be_confirmed_nor_forgotten(store: Store, call: Call) -> None:
    claim(store, call)
    pending = claim(store, call)
    assert call(pending.confirm) is False
    assert call(pending.forget) is False
    assert claim(store, call).state == "pending"


def test_the_token_travels(store: Store, call: Call) -> None:
    first = claim(store, call)
    assert first.token is not None
    assert call(store.dedup.confirm, "other", first.token) is False
    assert call(store.dedup.confirm, "e", first.token + "x") is False
    assert call(store.namespace("other").dedup.confirm, "e", first.token) is False
    assert call(store.dedup.confirm, "e", first.token) is True
    assert call(store.dedup.forget, "e", first.token) is False  # it is done, and stays so
    assert claim(store, call).state == "done"


def test_forget_by_token(store: Store, call: Call) -> None:
    first = claim(store, call)
    assert first.token is not None
    assert call(store.dedup.forget, "e", first.token) is True
    assert claim(store, call).state == "new"


def test_the_same_token_recognises_its_own_claim(store: Store) -> None:
    from django_statestore.contracts.tokens import token_digest

    backend: Any = store.backend
    entry, token = store.dedup._entry("e"), token_digest("mine")
    for _ in range(2):
        assert backend.dedup_claim(entry, token, 600_000, 60_000).run() == "new"
    assert store.dedup.claim("e", 600).state == "pending"


# -- claim and transactions -------------------------------------------------------------------------------------------


@pytest.mark.django_db(databases="__all__", transaction=True)
@pytest.mark.parametrize("settle", ["confirm", "forget"])
def test_confirm_and_forget_are_rolled_back_with_the_transaction_of_the_caller(
    store: Store, call: Call, settle: str
) -> None:
    first = claim(store, call)
    with transaction.atomic(using=store.alias):
        assert call(getattr(first, settle)) is True
        transaction.set_rollback(True, using=store.alias)
    assert claim(store, call).state == "pending"
    with transaction.atomic(using=store.alias):
        assert call(getattr(first, settle)) is True
    assert claim(store, call).state == ("done" if settle == "confirm" else "new")


# -- secrets and bad input --------------------------------------------------------------------------------------------


def test_the_token_is_stored_as_a_digest_and_never_shown(
    store: Store, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with CaptureQueriesContext(connections[store.alias]) as sent:
        first = claim(store, call)
        assert first.token is not None
        stored = rows(store)[0].token
        call(first.confirm)
    assert stored == hashlib.sha256(first.token.encode()).digest()
    assert rows(store)[0].token is None
    shown = f"{first!r}{first}{store.dedup!r}{sent.captured_queries}{caplog.text}"
    assert first.token not in shown


def test_bad_input_is_refused_before_the_backend_is_touched(store: Store, call: Call) -> None:
    with CaptureQueriesContext(connections[store.alias]) as sent:
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
    assert len(sent) == 0
