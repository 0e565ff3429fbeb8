"""What somebody finds who waited for a transaction that took a value, or put another in its place."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import transaction

from django_statestore import Store
from tests.database.test_interleaved_sequences import beside, wait_for_a_waiter
from tests.unit.spools import at_once

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def fill(store: Store) -> None:
    store.kv.set("k", "old")
    store.handoff.set("k", {"old": 1}, 60)
    store.queue.enqueue("k", "old")


def replace(store: Store) -> None:
    """Take what is there and put another in its place, as one step."""
    store.kv.consume("k")
    store.kv.set("k", "new", ttl=600)
    store.handoff.get_and_delete("k")
    store.handoff.set("k", {"new": 1}, 600)
    store.queue.delete("k")
    store.queue.enqueue("k", "new")


REMOVALS: dict[str, tuple[Callable[[Store], object], object]] = {
    "kv.consume": (lambda store: store.kv.consume("k"), "new"),
    "kv.delete": (lambda store: store.kv.delete("k"), True),
    "kv.touch": (lambda store: store.kv.touch("k", 60), True),
    "handoff.get_and_delete": (lambda store: store.handoff.get_and_delete("k"), {"new": 1}),
    "handoff.delete": (lambda store: store.handoff.delete("k"), True),
    "queue.dequeue": (lambda store: store.queue.dequeue("k"), "new"),
    "queue.take": (lambda store: (item := store.queue.take("k")) and item.value, "new"),
    "queue.delete": (lambda store: store.queue.delete("k"), True),
}


@pytest.mark.parametrize("operation", REMOVALS)
def test_who_waited_for_a_value_to_be_replaced_finds_the_new_one(postgres: Store, operation: str) -> None:
    """There was a value at every moment, so nobody may be told that there is none."""
    store, found = postgres, list[object]()
    fill(store)
    operate, expected = REMOVALS[operation]
    beside(store, lambda: replace(store), lambda: found.append(operate(store)))
    assert found == [expected]


@pytest.mark.parametrize("operation", REMOVALS)
def test_who_waited_for_a_value_to_be_taken_finds_none(postgres: Store, operation: str) -> None:
    store, found = postgres, list[object]()
    fill(store)

    def take() -> None:
        store.kv.consume("k")
        store.handoff.delete("k")
        store.queue.delete("k")

    beside(store, take, lambda: found.append(REMOVALS[operation][0](store)))
    assert found in ([None], [False])


def after_a_wait(store: Store, operate: Callable[[], object]) -> object:
    """Return what an operation gives that waits for 0.3 seconds for a transaction, which is then rolled back."""
    held, never, found = threading.Event(), threading.Event(), list[object]()

    def first() -> None:
        with transaction.atomic(using=store.alias):
            assert store.kv.consume("k") == "value"
            assert store.handoff.delete("k")
            held.set()
            wait_for_a_waiter(store)
            never.wait(0.3)
            transaction.set_rollback(True, using=store.alias)

    def second() -> None:
        assert held.wait(20)
        found.append(operate())

    at_once(first, second)
    return found[0]


def test_a_touch_counts_from_the_end_of_its_wait(postgres: Store) -> None:
    postgres.kv.set("k", "value", ttl=600)
    postgres.handoff.set("k", {}, 600)
    assert after_a_wait(postgres, lambda: postgres.kv.touch("k", 60)) is True
    left = postgres.kv.scan().items[0].expires_in
    assert left is not None
    assert 59.75 < left <= 60


@pytest.mark.parametrize("operation", [name for name in REMOVALS if not name.startswith("queue")])
def test_what_expired_while_somebody_waited_for_it_is_over(postgres: Store, operation: str) -> None:
    store = postgres
    store.kv.set("k", "value", ttl=0.25)
    store.handoff.set("k", {}, 0.25)
    assert after_a_wait(store, lambda: REMOVALS[operation][0](store)) in (None, False)
