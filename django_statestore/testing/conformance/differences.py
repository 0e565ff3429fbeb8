"""What a backend declares of itself: whether it joins transactions, and whether it outlives the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from ...exceptions import TransactionRefused
from ...store import Store
from .base import Conformance
from .calling import Call
from .durable import checkpoint


class Tokens:
    """Make something of every kind, and hold the tokens of what was taken."""

    def __init__(self, store: Store) -> None:
        store.kv.set("k", "old")
        store.dedup.seen("k", 600)
        self.claimed = store.dedup.claim("claimed", 600, 600).token or ""
        for number in range(3):
            store.list.append("k", number, ttl=600)
        for number in range(5):
            store.queue.enqueue("k", number)
        store.handoff.set("k", {"old": 1}, 600)
        store.spool.write("k", "old")
        self.taken = [item.token for item in (store.queue.take("k", 600), store.queue.take("k", 600)) if item]


Write = Callable[[Store, Call, Tokens], Any]
WRITES: dict[str, Write] = {
    "kv.set": lambda store, call, tokens: call(store.kv.set, "k", "new"),
    "kv.set fresh": lambda store, call, tokens: call(store.kv.set, "fresh", "new"),
    "kv.add": lambda store, call, tokens: call(store.kv.add, "fresh", "new"),
    "kv.consume": lambda store, call, tokens: call(store.kv.consume, "k"),
    "kv.delete": lambda store, call, tokens: call(store.kv.delete, "k"),
    "kv.touch": lambda store, call, tokens: call(store.kv.touch, "k", 5),
    "kv.clear": lambda store, call, tokens: call(store.kv.clear),
    "dedup.seen": lambda store, call, tokens: call(store.dedup.seen, "fresh", 600),
    "dedup.confirm": lambda store, call, tokens: call(store.dedup.confirm, "claimed", tokens.claimed),
    "dedup.forget": lambda store, call, tokens: call(store.dedup.forget, "claimed", tokens.claimed),
    "dedup.clear": lambda store, call, tokens: call(store.dedup.clear),
    "list.append": lambda store, call, tokens: call(store.list.append, "k", "new", 2),
    "list.append fresh": lambda store, call, tokens: call(store.list.append, "fresh", "new"),
    "list.trim": lambda store, call, tokens: call(store.list.trim, "k", 1),
    "list.delete": lambda store, call, tokens: call(store.list.delete, "k"),
    "list.clear": lambda store, call, tokens: call(store.list.clear),
    "queue.enqueue": lambda store, call, tokens: call(store.queue.enqueue, "k", "new", 2),
    "queue.enqueue fresh": lambda store, call, tokens: call(store.queue.enqueue, "fresh", "new"),
    "queue.dequeue": lambda store, call, tokens: call(store.queue.dequeue, "k"),
    "queue.take": lambda store, call, tokens: call(store.queue.take, "k", 600),
    "queue.ack": lambda store, call, tokens: call(store.queue.ack, "k", tokens.taken[0]),
    "queue.release": lambda store, call, tokens: call(store.queue.release, "k", tokens.taken[1]),
    "queue.delete": lambda store, call, tokens: call(store.queue.delete, "k"),
    "queue.clear": lambda store, call, tokens: call(store.queue.clear),
    "handoff.set": lambda store, call, tokens: call(store.handoff.set, "k", {"new": 1}, 600),
    "handoff.issue": lambda store, call, tokens: call(store.handoff.issue, {"new": 1}, 600),
    "handoff.get_and_delete": lambda store, call, tokens: call(store.handoff.get_and_delete, "k"),
    "handoff.delete": lambda store, call, tokens: call(store.handoff.delete, "k"),
    "handoff.clear": lambda store, call, tokens: call(store.handoff.clear),
    "spool.write": lambda store, call, tokens: call(store.spool.write, "k", "new"),
    "spool.write fresh": lambda store, call, tokens: call(store.spool.write, "fresh", "new"),
    "spool.delete": lambda store, call, tokens: call(store.spool.delete, "k"),
    "spool.clear": lambda store, call, tokens: call(store.spool.clear),
}
"""Every ordinary write; each changes something that can be seen."""


def told(store: Store, tokens: Tokens) -> dict[str, Any]:
    """Return what a caller can learn of a namespace without changing it."""
    reader = store.spool.read("k")
    expiring = store.kv.scan().items
    return {
        "kv": [store.kv.get(key) for key in ("k", "fresh")] + [item.expires_in is None for item in expiring],
        "dedup": [
            (item.key, bool(item.expires_in and item.expires_in > 300))
            for item in store.dedup.scan().items
        ],
        "list": [(store.list.range(key), store.list.length(key)) for key in ("k", "fresh")],
        "queue": [(store.queue.peek(key), store.queue.depth(key)) for key in ("k", "fresh")],
        "handoff": [store.handoff.get("k"), store.handoff.size()],
        "spool": [reader and reader.read_bytes(), store.spool.read("fresh") is None],
    }  # fmt: skip


def left_of(store: Store, tokens: Tokens) -> list[Any]:
    """Return what only a change tells: whose the claim and the items are."""
    settled = [store.dedup.forget("claimed", tokens.claimed)]
    return settled + [store.queue.ack("k", token) for token in tokens.taken]


def _hold(store: Store, call: Call) -> None:
    call.block(store.lock.hold("held"), lambda held: None)


def _exclusive(store: Store, call: Call) -> None:
    call.block(store.durable.exclusive("held"), lambda held: None)


DURABLE: dict[str, Callable[[Store, Call], Any]] = {
    "lock.acquire": lambda store, call: call(store.lock.acquire, "k"),
    "lock.release": lambda store, call: call(store.lock.release, "k", "token"),
    "lock.extend": lambda store, call: call(store.lock.extend, "k", "token", 60),
    "lock.force_release": lambda store, call: call(store.lock.force_release, "k"),
    "lock.clear": lambda store, call: call(store.lock.clear),
    "lock.hold": _hold,
    "dedup.claim": lambda store, call: call(store.dedup.claim, "k", 60),
    "durable.save": lambda store, call: call(store.durable.save, "k", checkpoint()),
    "durable.claim": lambda store, call: call(store.durable.claim, "claimed"),
    "durable.exclusive": _exclusive,
}
"""What must be durable when it returns."""


class DifferenceConformance(Conformance):
    """Hold a backend to what it declares by ``joins_transactions`` and ``outlives_process``."""

    @pytest.fixture
    def alias(self, store: Store) -> str:
        """Name the database on which to open a transaction."""
        if self.database is None:
            if store.backend.joins_transactions:
                pytest.fail("the backend declares joins_transactions: set `database` to the alias it writes on")
            pytest.skip("no database to open a transaction on: set `database` to an alias, if the project has one")
        return self.database

    @pytest.mark.parametrize("name", WRITES)
    def test_a_write_goes_with_the_callers_transaction_or_stays_as_declared(
        self, store: Store, call: Call, alias: str, name: str
    ) -> None:
        expected, here = store.namespace("expected"), store.namespace("here")
        expected_tokens, tokens = Tokens(expected), Tokens(here)
        before = told(here, tokens)
        if not store.backend.joins_transactions:
            WRITES[name](expected, call, expected_tokens)
        with transaction.atomic(using=alias):
            WRITES[name](here, call, tokens)
            transaction.set_rollback(True, using=alias)
        assert told(here, tokens) == told(expected, expected_tokens)
        if store.backend.joins_transactions:
            assert told(here, tokens) == before
        assert left_of(here, tokens) == left_of(expected, expected_tokens)

    @pytest.mark.parametrize("name", WRITES)
    def test_a_write_in_a_transaction_is_there_at_once_and_after_the_commit(
        self, store: Store, call: Call, alias: str, name: str
    ) -> None:
        expected, here = store.namespace("expected"), store.namespace("here")
        expected_tokens, tokens = Tokens(expected), Tokens(here)
        WRITES[name](expected, call, expected_tokens)
        with transaction.atomic(using=alias):
            WRITES[name](here, call, tokens)
            assert told(here, tokens) == told(expected, expected_tokens)
        assert told(here, tokens) == told(expected, expected_tokens)
        assert left_of(here, tokens) == left_of(expected, expected_tokens)

    @pytest.mark.parametrize("name", DURABLE)
    def test_what_must_be_durable_is_refused_in_a_transaction_or_works_as_declared(
        self, store: Store, call: Call, alias: str, name: str
    ) -> None:
        with transaction.atomic(using=alias):
            if store.backend.joins_transactions:
                with pytest.raises(TransactionRefused, match="must be durable when it returns") as caught:
                    DURABLE[name](store, call)
                assert "outside the block" in str(caught.value)
                store.kv.set("k", "the transaction goes on")
            else:
                DURABLE[name](store, call)
            transaction.set_rollback(True, using=alias)
        if store.backend.joins_transactions:
            assert store.lock.size() == store.dedup.size() == 0
            assert store.durable.load("k") is None
            DURABLE[name](store, call)

    def test_what_is_durable_stays_when_a_transaction_around_it_is_rolled_back(self, store: Store, alias: str) -> None:
        if store.backend.joins_transactions:
            pytest.skip("the backend joins transactions: such a call is refused")
        with transaction.atomic(using=alias):
            lock, claim, lease = store.lock.acquire("k"), store.dedup.claim("k", 60), store.durable.claim("k")
            transaction.set_rollback(True, using=alias)
        assert lock is not None
        assert lease is not None
        assert store.lock.acquire("k") is None
        assert store.dedup.claim("k", 60).state == "pending"
        assert store.durable.claim("k") is None
        assert lock.release() is claim.confirm() is store.durable.release("k", lease.token) is True

    def test_what_is_kept_outlives_the_process_or_not_as_declared(self, store: Store, call: Call) -> None:
        tokens = Tokens(store)
        lock, lease = store.lock.acquire("k", 600), store.durable.claim("k", 600)
        assert lock is not None
        assert lease is not None
        store.durable.commit("k", lease.token, checkpoint())
        other = self.again(store)
        assert other.backend is not store.backend
        if not store.backend.outlives_process:
            assert call(other.kv.get, "k") is None
            assert call(other.spool.read, "k") is None
            assert call(other.lock.acquire, "k") is not None
            assert call(other.durable.load, "k") is None
            assert [call(facet.size) for facet in (other.list, other.queue, other.handoff, other.dedup)] == [0] * 4
            return
        assert told(other, tokens) == told(store, tokens)
        assert call(other.durable.load, "k") == checkpoint()
        assert call(other.lock.acquire, "k") is None
        assert call(other.durable.claim, "k") is None
        assert call(other.lock.release, "k", lock.token) is True  # tokens travel
        assert call(other.durable.release, "k", lease.token) is True
        assert left_of(other, tokens) == [True, True, True]
        assert call(store.lock.acquire, "k") is not None

    def test_what_one_event_loop_wrote_another_reads(self, store: Store) -> None:
        for number in range(3):
            async_to_sync(store.kv.aset)("k", number)
            assert async_to_sync(store.kv.aget)("k") == store.kv.get("k") == number
