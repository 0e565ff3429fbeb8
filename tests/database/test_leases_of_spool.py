"""spool: how long an upload may pause, and what becomes of one that paused for too long."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db.models import F

from django_statestore.exceptions import StateStoreError
from django_statestore.models import SpoolBlob
from django_statestore.store import Store
from tests.calling import Call
from tests.unit.spools import HOUR, age, chunks_of, states

BODY = b"".join(b"line %d\n" % number for number in range(60))


@pytest.fixture(autouse=True)
def chunk_size(store: Store) -> Iterator[None]:
    """Let a piece, 16 chunks, be shorter than the body."""
    with chunks_of(store, 7):
        yield


def test_an_upload_that_pauses_too_long_is_purged_and_says_so(store: Store, call: Call) -> None:
    old = call(store.spool.write, "c", "old")

    def slow() -> Iterator[bytes]:
        yield BODY
        assert states(store)["writing"] == 1
        age(store, "lease_until", HOUR)
        assert purge_writing(store) == 1
        yield b"more"

    with pytest.raises(StateStoreError, match="SPOOL_LEASE"):
        call(store.spool.write, "c", slow())
    assert call(store.spool.read, "c") == old
    assert states(store) == {"live": 1}


@pytest.mark.parametrize("rest", [b"", b"more", BODY], ids=["nothing", "an-end", "another-piece"])
def test_an_upload_that_a_purge_has_begun_to_take_can_not_be_finished(store: Store, call: Call, rest: bytes) -> None:
    def slow() -> Iterator[bytes]:
        yield BODY
        age(store, "lease_until", HOUR)
        condemned = SpoolBlob.objects.using(store.alias).exclude(lease_until=None)
        assert condemned.update(dropped_at=F("lease_until")) == 1
        yield rest

    with pytest.raises(StateStoreError, match="SPOOL_LEASE"):
        call(store.spool.write, "c", slow())
    assert call(store.spool.read, "c") is None
    assert states(store) == {"condemned": 1}
    assert purge_writing(store) == 1
    assert states(store) == {}


def test_a_lease_that_is_over_but_not_purged_may_finish(store: Store, call: Call) -> None:
    def slow() -> Iterator[bytes]:
        yield BODY
        age(store, "lease_until", HOUR)
        yield b"more"

    assert call(call(store.spool.write, "c", slow()).read_bytes) == BODY + b"more"
    assert purge_writing(store) == 0


def test_every_piece_renews_the_lease(store: Store, call: Call) -> None:
    def slow() -> Iterator[bytes]:
        for start in range(0, len(BODY), 112):  # each item is 16 chunks, written before the next one is asked for
            age(store, "lease_until", 200_000)  # two thirds of the lease: without a renewal the second ends it
            assert purge_writing(store) == 0
            yield BODY[start : start + 112]

    assert call(call(store.spool.write, "c", slow()).read_bytes) == BODY


def test_small_items_renew_the_lease_too(store: Store, call: Call, settings: Any) -> None:
    """What a slow source has given is no full piece, and yet it shows that the upload goes on."""
    settings.STATESTORE = {"SPOOL_LEASE": 0.001}
    seen = []

    def slow() -> Iterator[bytes]:
        yield BODY
        for _ in range(4):
            time.sleep(0.003)  # longer than the third of the lease after which a piece is written as it is
            seen.append(leases(store))
            yield b"x"

    assert call(call(store.spool.write, "c", slow()).read_bytes) == BODY + b"xxxx"
    assert all(earlier < later for earlier, later in itertools.pairwise(seen))


def leases(store: Store) -> list[Any]:
    rows = SpoolBlob.objects.using(store.alias).exclude(lease_until=None)
    return list(rows.order_by("id").values_list("lease_until", flat=True))


def purge_writing(store: Store) -> int:
    backend: Any = store.backend
    return int(backend.spool_purge_writing(100).run())
