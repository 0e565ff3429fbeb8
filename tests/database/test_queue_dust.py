"""What is done beside an operation of a queue, to what is dead or has come back, is not what it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_statestore import Store
from django_statestore.backends.database.queue_find import FEW
from django_statestore.models import QueueItem
from django_statestore.testing import age

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def crowd(store: Store, ttl: int | None = None) -> None:
    """Have more come back, or expire, than are freed or buried at once; one item lies behind them."""
    for number in range(FEW + 20):
        store.queue.enqueue("q", number, ttl=ttl)
        if ttl is None:
            store.queue.take("q", lease=10)
    store.queue.enqueue("q", "behind")
    age(store, 11)


def test_an_item_is_taken_once_though_others_could_not_be_freed(store: Store) -> None:
    """SQLite frees them by a statement of its own; what is tried again when that fails would take another item."""
    if connections[store.alias].vendor != "sqlite":
        pytest.skip("it is one statement")
    crowd(store)
    refused = []

    def refuse(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if "set free = true" in sql:
            refused.append(sql)
            raise OperationalError("database is locked")
        return execute(sql, params, many, context)

    with connections[store.alias].execute_wrapper(refuse):
        item = store.queue.take("q")
    assert item is not None
    assert (item.value, item.deliveries, len(refused)) == (0, 2, 1)
    assert QueueItem.objects.using(store.alias).filter(queue__namespace=store.names[0], deliveries=2).count() == 1
    assert item.ack()
    assert store.queue.dequeue("q") == 1


def test_more_come_back_than_are_freed_at_once_and_all_have_their_places(store: Store) -> None:
    crowd(store)
    assert [store.queue.dequeue("q") for _ in range(FEW + 22)] == [*range(FEW + 20), "behind", None]


def test_more_have_expired_than_are_buried_at_once_and_none_is_counted_or_had(store: Store) -> None:
    crowd(store, ttl=10)
    rows = QueueItem.objects.using(store.alias).filter(queue__namespace=store.names[0])
    assert (store.queue.depth("q"), store.queue.peek("q"), store.queue.size()) == (1, "behind", 1)
    assert store.queue.enqueue("q", "more", max_size=2, on_full="reject") == 2
    assert rows.count() == 22
    assert store.queue.enqueue("q", "most", max_size=2) == 2
    assert rows.count() == 2
    assert [store.queue.dequeue("q") for _ in range(3)] == ["more", "most", None]


def test_a_queue_of_nothing_but_the_dead_is_no_more(store: Store) -> None:
    crowd(store, ttl=10)
    assert store.queue.dequeue("q") == "behind"
    assert QueueItem.objects.using(store.alias).filter(queue__namespace=store.names[0]).count() == 20
    assert (store.queue.size(), store.queue.scan().items, store.queue.delete("q")) == (0, (), False)
    assert not QueueItem.objects.using(store.alias).filter(queue__namespace=store.names[0]).exists()
