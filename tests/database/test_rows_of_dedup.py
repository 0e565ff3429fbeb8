"""dedup on a database: its rows, its statements, and the very instant of an expiry."""

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
from django_statestore.testing.conformance.cases import BAD_KEYS, BAD_TTLS
from tests.calling import Call
from tests.database.clocks import clock_at


def rows(store: Store) -> list[DedupEntry]:
    return list(DedupEntry.objects.using(store.alias).filter(namespace=encode_namespace(store.names)))


def purge(store: Store) -> int:
    backend: Any = store.backend
    return int(backend.entries_purge("dedup", 1000).run())


def claim(store: Store, call: Call, ttl: float = 600, lease: float = 60) -> Claim:
    return call(store.dedup.claim, "e", ttl, lease)


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


def test_a_purge_takes_what_can_no_longer_matter(store: Store, call: Call) -> None:
    claim(store, call, ttl=600, lease=10)
    call(store.dedup.seen, "window", 20)
    age(store, 21)
    purge(store)
    assert [each.key for each in rows(store)] == ["e"]
    age(store, 600)
    purge(store)
    assert rows(store) == []


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
