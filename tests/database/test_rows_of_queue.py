"""queue on a database: the count that its head keeps, its rows, and its purge."""

from typing import Any

import pytest

from django_statestore import Store
from django_statestore.exceptions import InvalidArgument, InvalidTTL, QueueFull, ValueNotSerializable
from django_statestore.models import QueueHead, QueueItem
from django_statestore.services.purge import purge
from django_statestore.testing import age
from tests.calling import Call


def drained(store: Store, call: Call, key: str = "q") -> list[Any]:
    values: list[Any] = []
    while (value := call(store.queue.dequeue, key, "end")) != "end":
        values.append(value)
    return values


def stored(store: Store) -> int:
    """Return the count that the head keeps of the queue ``q``."""
    return QueueHead.objects.using(store.alias).get(namespace=store.names[0], key="q").stored


def test_first_in_first_out_with_the_depth_after_each(store: Store, call: Call) -> None:
    assert [call(store.queue.enqueue, "q", value) for value in ("a", None, 0, "")] == [1, 2, 3, 4]
    assert call(store.queue.peek, "q") == "a"
    assert call(store.queue.depth, "q") == 4
    assert drained(store, call) == ["a", None, 0, ""]
    assert stored(store) == 0


def test_drop_oldest_evicts_until_it_fits(store: Store, call: Call) -> None:
    assert [call(store.queue.enqueue, "q", value, max_size=2) for value in (1, 2, 3)] == [1, 2, 2]
    for value in (4, 5, 6):
        call(store.queue.enqueue, "q", value)
    assert call(store.queue.enqueue, "q", 7, max_size=2) == 2
    assert (stored(store), drained(store, call)) == (2, [6, 7])


def test_drop_newest_leaves_the_queue_as_it_is(store: Store, call: Call) -> None:
    depths = [call(store.queue.enqueue, "q", value, max_size=2, on_full="drop-newest") for value in (1, 2, 3)]
    assert (depths, stored(store), drained(store, call)) == ([1, 2, 2], 2, [1, 2])


def test_reject_raises_and_adds_nothing(store: Store, call: Call) -> None:
    call(store.queue.enqueue, "q", 1, max_size=1, on_full="reject")
    with pytest.raises(QueueFull, match="'q'"):
        call(store.queue.enqueue, "q", 2, max_size=1, on_full="reject")
    assert (stored(store), drained(store, call)) == (1, [1])


def test_bad_input_is_refused_before_anything_is_written(store: Store, call: Call) -> None:
    for size in (0, -1, True, 1.5):
        with pytest.raises(InvalidArgument, match="max_size"):
            call(store.queue.enqueue, "q", 1, max_size=size)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="on_full"):
        call(store.queue.enqueue, "q", 1, on_full="drop")  # type: ignore[arg-type]
    with pytest.raises(InvalidTTL):
        call(store.queue.enqueue, "q", 1, ttl=-1)
    with pytest.raises(ValueNotSerializable):
        call(store.queue.enqueue, "q", object())
    with pytest.raises(InvalidTTL):
        call(store.queue.take, "q", lease=0)
    assert not QueueHead.objects.using(store.alias).filter(namespace=store.names[0]).exists()


@pytest.mark.parametrize("purged", [False, True], ids=["unpurged", "purged"])
def test_expired_items_neither_fill_the_queue_nor_count(store: Store, call: Call, purged: bool) -> None:
    call(store.queue.enqueue, "q", 1, ttl=10)
    call(store.queue.enqueue, "q", 2, ttl=10)
    age(store, 11)
    if purged:
        purge(store.alias)
    assert call(store.queue.depth, "q") == 0
    assert call(store.queue.peek, "q") is None
    assert call(store.queue.size) == 0
    assert call(store.queue.enqueue, "q", 3, max_size=2, on_full="drop-newest") == 1
    assert call(store.queue.enqueue, "q", 4, ttl=10, max_size=2) == 2
    age(store, 11)
    assert call(store.queue.enqueue, "q", 5, max_size=2) == 2
    assert (stored(store), drained(store, call)) == (2, [3, 5])


def test_a_taken_item_is_hidden_until_it_is_acknowledged(store: Store, call: Call) -> None:
    call(store.queue.enqueue, "q", "a")
    call(store.queue.enqueue, "q", "b")
    item = call(store.queue.take, "q", lease=60)
    assert item is not None
    assert (item.value, item.deliveries) == ("a", 1)
    assert call(store.queue.peek, "q") == "b"
    assert call(store.queue.depth, "q") == 2
    assert call(item.ack) is True
    assert call(item.ack) is False
    assert call(item.release) is False
    assert (call(store.queue.depth, "q"), stored(store), drained(store, call)) == (1, 1, ["b"])


def test_tokens_travel_and_are_stored_as_digests(store: Store, call: Call) -> None:
    call(store.queue.enqueue, "q", "secret")
    item = call(store.queue.take, "q")
    assert item is not None
    assert item.token not in repr(item)
    assert "secret" not in repr(item)
    row = QueueItem.objects.using(store.alias).get(queue__namespace=store.names[0])
    assert item.token.encode() not in (row.token, b"")
    assert call(store.queue.ack, "other", item.token) is False
    assert call(store.queue.ack, "q", item.token) is True


def test_a_taken_item_that_is_evicted_cannot_be_acknowledged(store: Store, call: Call) -> None:
    call(store.queue.enqueue, "q", 1)
    item = call(store.queue.take, "q")
    assert item is not None
    assert call(store.queue.enqueue, "q", 2, max_size=1) == 1
    assert call(item.ack) is False
    assert (stored(store), drained(store, call)) == (1, [2])


def test_the_purge_removes_expired_items_and_empty_queues(store: Store, call: Call) -> None:
    call(store.queue.enqueue, "q", 1)
    call(store.queue.enqueue, "q", 2, ttl=10)
    call(store.queue.enqueue, "gone", 3, ttl=10)
    age(store, 11)
    purge(store.alias)
    heads = QueueHead.objects.using(store.alias).filter(namespace=store.names[0])
    assert [(head.key, head.stored) for head in heads] == [("q", 1)]
    assert QueueItem.objects.using(store.alias).filter(queue__namespace=store.names[0]).count() == 1
