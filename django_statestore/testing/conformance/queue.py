"""queue: first in, first out, with a limit if wanted."""

from __future__ import annotations

from typing import Any

import pytest

from ...contracts.queue import Item
from ...exceptions import InvalidArgument, InvalidKey, InvalidTTL, QueueFull, ValueNotSerializable
from ...store import Store
from .base import Conformance, later, purge
from .calling import Call
from .cases import BAD_KEYS, BAD_TTLS, EMPTY_VALUES, ODD_KEYS, UNLIKE_KEYS

by_purge = pytest.mark.parametrize("purged", [False, True], ids=["unpurged", "purged"])


def drained(store: Store, call: Call, key: str = "q") -> list[Any]:
    values: list[Any] = []
    while (value := call(store.queue.dequeue, key, "end")) != "end":
        values.append(value)
    return values


def take(store: Store, call: Call, lease: Any = 60) -> Item:
    item = call(store.queue.take, "q", lease)
    assert item is not None
    return item


class QueueConformance(Conformance):
    """Hold a backend to the rules of ``store.queue``."""

    # -- order --------------------------------------------------------------------------------------------------------

    def test_first_in_first_out_with_the_depth_after_each(self, store: Store, call: Call) -> None:
        assert [call(store.queue.enqueue, "q", value) for value in ("a", None, 0, "")] == [1, 2, 3, 4]
        assert call(store.queue.peek, "q") == "a"
        assert call(store.queue.depth, "q") == 4
        assert drained(store, call) == ["a", None, 0, ""]
        assert call(store.queue.depth, "q") == 0

    def test_the_order_is_that_of_arrival_however_fast(self, store: Store, call: Call) -> None:
        for value in range(50):
            call(store.queue.enqueue, "q", value)
        assert [call(store.queue.dequeue, "q") for _ in range(25)] == list(range(25))
        for value in range(50, 60):
            call(store.queue.enqueue, "q", value)
        assert drained(store, call) == list(range(25, 60))

    def test_an_empty_queue_gives_the_default(self, store: Store, call: Call) -> None:
        marker = object()
        assert call(store.queue.dequeue, "q") is call(store.queue.peek, "q") is None
        assert call(store.queue.dequeue, "q", marker) is marker
        assert call(store.queue.peek, "q", marker) is marker
        assert call(store.queue.depth, "q") == 0
        assert call(store.queue.take, "q") is None
        assert call(store.queue.delete, "q") is False

    def test_an_empty_value_is_an_item(self, store: Store, call: Call) -> None:
        marker = object()
        for value in EMPTY_VALUES:
            call(store.queue.enqueue, "q", value)
            assert repr(call(store.queue.peek, "q", marker)) == repr(value)
            assert repr(call(store.queue.dequeue, "q", marker)) == repr(value)
            call(store.queue.enqueue, "q", value)
            item = take(store, call)
            assert repr(item.value) == repr(value)
            assert call(item.ack) is True

    # -- limits -------------------------------------------------------------------------------------------------------

    def test_drop_oldest_is_the_default_and_evicts_until_it_fits(self, store: Store, call: Call) -> None:
        assert [call(store.queue.enqueue, "q", value, max_size=2) for value in (1, 2, 3)] == [1, 2, 2]
        for value in (4, 5, 6):
            call(store.queue.enqueue, "q", value)
        assert call(store.queue.enqueue, "q", 7, max_size=2) == 2
        assert (call(store.queue.depth, "q"), drained(store, call)) == (2, [6, 7])

    def test_drop_newest_leaves_the_queue_as_it_is(self, store: Store, call: Call) -> None:
        depths = [call(store.queue.enqueue, "q", value, max_size=2, on_full="drop-newest") for value in (1, 2, 3)]
        assert (depths, call(store.queue.depth, "q"), drained(store, call)) == ([1, 2, 2], 2, [1, 2])

    def test_reject_raises_and_adds_nothing(self, store: Store, call: Call) -> None:
        assert call(store.queue.enqueue, "q", 1, max_size=1, on_full="reject") == 1
        with pytest.raises(QueueFull, match="'q'"):
            call(store.queue.enqueue, "q", 2, max_size=1, on_full="reject")
        assert (call(store.queue.depth, "q"), drained(store, call)) == (1, [1])

    def test_a_smaller_limit_than_what_is_there_refuses_without_evicting(self, store: Store, call: Call) -> None:
        for value in range(5):
            call(store.queue.enqueue, "q", value)
        assert call(store.queue.enqueue, "q", 9, max_size=2, on_full="drop-newest") == 5
        with pytest.raises(QueueFull):
            call(store.queue.enqueue, "q", 9, max_size=2, on_full="reject")
        assert drained(store, call) == [0, 1, 2, 3, 4]

    def test_bad_input_is_refused_before_anything_is_written(self, store: Store, call: Call) -> None:
        for size in (0, -1, True, 1.5):
            with pytest.raises(InvalidArgument, match="max_size"):
                call(store.queue.enqueue, "q", 1, max_size=size)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="on_full"):
            call(store.queue.enqueue, "q", 1, on_full="drop")  # type: ignore[arg-type]
        for ttl in BAD_TTLS:
            with pytest.raises(InvalidTTL):
                call(store.queue.enqueue, "q", 1, ttl=ttl)
            with pytest.raises(InvalidTTL, match="lease"):
                call(store.queue.take, "q", lease=ttl)
        with pytest.raises(ValueNotSerializable):
            call(store.queue.enqueue, "q", object())
        operations: dict[str, list[Any]] = {
            "enqueue": [1], "dequeue": [], "peek": [], "depth": [], "delete": [], "take": [], "ack": ["x"],
            "release": ["x"],
        }  # fmt: skip
        for key in BAD_KEYS:
            for operation, arguments in operations.items():
                with pytest.raises(InvalidKey):
                    call(getattr(store.queue, operation), key, *arguments)
        assert call(store.queue.size) == call(store.queue.depth, "q") == 0

    # -- expiry -------------------------------------------------------------------------------------------------------

    @by_purge
    def test_expired_items_neither_fill_the_queue_nor_count(self, store: Store, call: Call, purged: bool) -> None:
        call(store.queue.enqueue, "q", 1, ttl=10)
        call(store.queue.enqueue, "q", 2, ttl=10)
        later(store, 11)
        if purged:
            purge(store)
        assert call(store.queue.depth, "q") == 0
        assert call(store.queue.peek, "q") is None
        assert call(store.queue.take, "q") is None
        assert call(store.queue.size) == 0
        assert call(store.queue.scan).items == ()
        assert call(store.queue.delete, "q") is False
        assert call(store.queue.enqueue, "q", 3, max_size=2, on_full="drop-newest") == 1
        assert call(store.queue.enqueue, "q", 4, ttl=10, max_size=2) == 2
        later(store, 11)
        if purged:
            purge(store)
        assert call(store.queue.enqueue, "q", 5, max_size=2) == 2
        assert (call(store.queue.depth, "q"), drained(store, call)) == (2, [3, 5])

    def test_an_expired_item_is_passed_over_wherever_it_stands(self, store: Store, call: Call) -> None:
        for number, ttl in enumerate([10, None, 10, 60, 10]):
            call(store.queue.enqueue, "q", number, ttl=ttl)
        later(store, 11)
        assert call(store.queue.peek, "q") == 1
        assert call(store.queue.depth, "q") == 2
        assert drained(store, call) == [1, 3]

    def test_an_item_without_ttl_stays(self, store: Store, call: Call) -> None:
        call(store.queue.enqueue, "q", 1)
        call(store.queue.enqueue, "q", 2, ttl=10)
        later(store, 10**7)
        purge(store)
        assert drained(store, call) == [1]

    def test_an_item_may_expire_while_it_is_taken(self, store: Store, call: Call) -> None:
        call(store.queue.enqueue, "q", 1, ttl=30)
        item = take(store, call, lease=60)
        later(store, 31)
        assert call(store.queue.depth, "q") == 0
        assert call(item.ack) is False
        later(store, 31)
        assert drained(store, call) == []

    # -- leases -------------------------------------------------------------------------------------------------------

    def test_a_taken_item_is_hidden_until_it_is_acknowledged(self, store: Store, call: Call) -> None:
        call(store.queue.enqueue, "q", "a")
        call(store.queue.enqueue, "q", "b")
        item = take(store, call)
        assert (item.key, item.value, item.deliveries) == ("q", "a", 1)
        assert call(store.queue.peek, "q") == "b"
        assert call(store.queue.depth, "q") == 2
        assert call(item.ack) is True
        assert call(item.ack) is False
        assert call(item.release) is False
        assert (call(store.queue.depth, "q"), drained(store, call)) == (1, ["b"])

    def test_a_queue_of_taken_items_alone_gives_none_and_has_its_depth(self, store: Store, call: Call) -> None:
        call(store.queue.enqueue, "q", "a")
        item = take(store, call)
        assert call(store.queue.take, "q") is call(store.queue.dequeue, "q") is call(store.queue.peek, "q") is None
        assert call(store.queue.depth, "q") == call(store.queue.size) == 1
        assert call(store.queue.enqueue, "q", "b", max_size=1, on_full="drop-newest") == 1
        assert call(item.ack) is True
        assert drained(store, call) == []

    def test_an_item_whose_taker_died_comes_back_in_its_place(self, store: Store, call: Call) -> None:
        for value in "abc":
            call(store.queue.enqueue, "q", value)
        dead = take(store, call, lease=60)
        later(store, 40)
        assert call(store.queue.peek, "q") == "b"
        later(store, 21)
        again = take(store, call, lease=60)
        assert (again.value, again.deliveries) == ("a", 2)
        assert call(dead.ack) is False
        assert call(dead.release) is False
        assert call(again.ack) is True
        assert drained(store, call) == ["b", "c"]

    @by_purge
    def test_a_late_ack_counts_while_nobody_else_took_the_item(self, store: Store, call: Call, purged: bool) -> None:
        call(store.queue.enqueue, "q", "a")
        item = take(store, call, lease=1)
        later(store, 5)
        if purged:
            purge(store)
        assert call(item.ack) is True
        assert call(store.queue.depth, "q") == 0

    def test_a_released_item_goes_back_to_its_place_after_its_delay(self, store: Store, call: Call) -> None:
        call(store.queue.enqueue, "q", "a")
        call(store.queue.enqueue, "q", "b")
        assert call(take(store, call).release) is True
        again = take(store, call)
        assert again.value == "a"
        assert call(again.release, delay=60) is True
        assert call(again.release) is False
        assert call(again.ack) is False
        assert call(store.queue.peek, "q") == "b"
        assert call(store.queue.depth, "q") == 2
        later(store, 61)
        assert drained(store, call) == ["a", "b"]

    def test_tokens_travel_as_plain_text(self, store: Store, call: Call) -> None:
        for value in "ab":
            call(store.queue.enqueue, "q", value)
        first, second = take(store, call), take(store, call)
        assert min(len(first.token), len(second.token)) >= 32
        assert first.token != second.token
        assert call(store.queue.ack, "other", first.token) is False
        assert call(store.queue.ack, "q", first.token + "x") is False
        assert call(store.namespace("below").queue.ack, "q", first.token) is False
        assert call(store.queue.ack, "q", second.token) is True
        assert call(store.queue.release, "q", first.token) is True
        assert drained(store, call) == ["a"]
        wrong: Any
        for wrong in ("", None, b"x", 1):
            with pytest.raises(InvalidArgument, match="token"):
                call(store.queue.ack, "q", wrong)

    def test_a_taken_item_that_is_evicted_cannot_be_acknowledged(self, store: Store, call: Call) -> None:
        call(store.queue.enqueue, "q", 1)
        item = take(store, call)
        assert call(store.queue.enqueue, "q", 2, max_size=1) == 1
        assert call(item.ack) is False
        assert call(item.release) is False
        assert (call(store.queue.depth, "q"), drained(store, call)) == (1, [2])

    # -- the rest -----------------------------------------------------------------------------------------------------

    def test_delete_removes_all_items(self, store: Store, call: Call) -> None:
        for value in range(3):
            call(store.queue.enqueue, "q", value)
        item = take(store, call)
        assert call(store.queue.delete, "q") is True
        assert call(store.queue.delete, "q") is False
        assert call(item.ack) is False
        assert call(store.queue.enqueue, "q", "new") == 1
        assert drained(store, call) == ["new"]

    def test_queues_are_separate_by_key_and_namespace(self, store: Store, call: Call) -> None:
        keys = UNLIKE_KEYS + ODD_KEYS
        for key in keys:
            assert call(store.queue.enqueue, key, key) == 1
        call(store.namespace("below").queue.enqueue, "key", 3)
        assert call(store.queue.size) == len(keys)
        assert [item.key for item in call(store.queue.scan).items] == sorted(keys)
        assert [call(store.queue.dequeue, key) for key in keys] == keys
        assert call(store.queue.size) == 0
        call(store.queue.enqueue, "key", 4)
        call(store.queue.clear)
        assert (call(store.queue.size), call(store.queue.depth, "key")) == (0, 0)
        assert call(store.queue.enqueue, "key", 4) == 1
        assert call(store.namespace("below").queue.dequeue, "key") == 3

    def test_a_listing_tells_the_bytes_of_all_live_items(self, store: Store, call: Call) -> None:
        for ttl in (None, 10, None):
            call(store.queue.enqueue, "q", "value", ttl=ttl)
        later(store, 11)
        take(store, call)
        (item,) = call(store.queue.scan).items
        assert (item.key, item.size, item.expires_in) == ("q", 2 * len('"value"'), None)
