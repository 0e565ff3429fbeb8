"""spool on a database: what becomes of the blobs, also where a source fails or a transaction is rolled back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction

from django_statestore.store import Store
from tests.calling import Call
from tests.unit.spools import chunks_of, states


@pytest.fixture(params=[65_536, 5], ids=["one-chunk", "many-chunks"], autouse=True)
def chunk_size(request: pytest.FixtureRequest, store: Store) -> Iterator[int]:
    """Run every test with bodies of one chunk, and with the same bodies as long ones."""
    with chunks_of(store, request.param):
        yield request.param


def test_a_rewrite_replaces(store: Store, call: Call) -> None:
    call(store.spool.write, "c", "old")
    new = call(store.spool.write, "c", "new one")
    reader = call(store.spool.read, "c")
    assert reader is not None
    assert reader == new
    assert call(reader.read_all) == "new one"
    assert call(store.spool.size) == 1
    assert states(store) == {"live": 1, "dropped": 1}


def test_delete_tells_whether_there_was_one(store: Store, call: Call) -> None:
    call(store.spool.write, "c", "a")
    assert call(store.spool.delete, "c") is True
    assert call(store.spool.delete, "c") is False
    assert call(store.spool.read, "c") is None
    assert call(store.spool.size) == 0
    assert states(store) == {"dropped": 1}


def test_after_a_delete_it_can_be_written_again(store: Store, call: Call) -> None:
    call(store.spool.write, "c", "a")
    call(store.spool.delete, "c")
    call(store.spool.write, "c", "b")
    reader = call(store.spool.read, "c")
    assert reader is not None
    assert call(reader.read_all) == "b"
    assert states(store) == {"live": 1, "dropped": 1}


def test_clear_removes_every_entry(store: Store, call: Call) -> None:
    for call_id in ("a", "b", "c"):
        call(store.spool.write, call_id, "text")
    call(store.spool.clear)
    assert call(store.spool.size) == 0
    assert call(store.spool.read, "a") is None
    assert states(store) == {"dropped": 3}


def test_a_write_joins_the_callers_transaction(store: Store, call: Call) -> None:
    with transaction.atomic(using=store.alias):
        call(store.spool.write, "c", "some text, longer than a chunk")
    reader = call(store.spool.read, "c")
    assert reader is not None
    assert call(reader.read_all) == "some text, longer than a chunk"


@pytest.mark.parametrize("body", ["new", "new, and longer than a chunk", "new\n" * 100])
def test_a_write_that_is_rolled_back_leaves_the_old_entry(store: Store, call: Call, body: str) -> None:
    old = call(store.spool.write, "c", "old")
    with transaction.atomic(using=store.alias):
        call(store.spool.write, "c", body)
        call(store.spool.write, "d", body)
        assert call(store.spool.size) == 2
        transaction.set_rollback(True, using=store.alias)
    assert call(store.spool.read, "c") == old
    assert call(store.spool.read, "d") is None
    assert states(store) == {"live": 1}


def test_a_delete_or_clear_that_is_rolled_back_did_not_happen(store: Store, call: Call) -> None:
    old = call(store.spool.write, "c", "old")
    for remove in (lambda: call(store.spool.delete, "c"), lambda: call(store.spool.clear)):
        with transaction.atomic(using=store.alias):
            remove()
            assert call(store.spool.read, "c") is None
            transaction.set_rollback(True, using=store.alias)
        assert call(store.spool.read, "c") == old
    assert states(store) == {"live": 1}


def test_a_rewrite_does_not_poison_the_callers_transaction(store: Store, call: Call) -> None:
    with transaction.atomic(using=store.alias):
        call(store.kv.set, "before", 1)
        for body in ("one", "two", "three, which is longer"):
            call(store.spool.write, "c", body)
        call(store.kv.set, "behind", 1)
    assert call(store.kv.get, "before") == call(store.kv.get, "behind") == 1
    assert states(store) == {"live": 1, "dropped": 2}


def test_nothing_that_was_written_shows_in_a_repr(store: Store, call: Call) -> None:
    reader = call(store.spool.write, "c", "secret")
    assert repr(reader) == "<SpoolReader call_id='c' byte_length=6 line_count=1>"
    assert reader.ref["spool"] not in repr(reader)
