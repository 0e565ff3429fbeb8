"""Values: they come back equal and of the same type through every facet, or they are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from ...contracts.checkpoint import Checkpoint
from ...exceptions import ValueNotSerializable
from ...store import Store
from .base import Conformance
from .calling import Call
from .cases import BAD_VALUES, EMPTY_VALUES, VALUES, alike


def checkpoint(state: Any) -> Checkpoint:
    return Checkpoint(
        definition_id="d", revision="1", next_step_index=0, attempt_count=0, max_attempts=1,
        deadline_at_ms=1_900_000_000_000, status="ready", state=state,
    )  # fmt: skip


def _durable(store: Store, call: Call, value: Any) -> Any:
    call(store.durable.save, "t", checkpoint(value))
    loaded = call(store.durable.load, "t")
    assert loaded is not None
    return loaded.state


def _after(write: object, read: Any) -> Any:
    """Return what was read after a write."""
    return read


WAYS: dict[str, Callable[[Store, Call, Any], Any]] = {
    "kv.set": lambda store, call, value: _after(call(store.kv.set, "k", value), call(store.kv.get, "k")),
    "kv.add": lambda store, call, value: _after(call(store.kv.add, "k", value), call(store.kv.consume, "k")),
    "list.range": lambda store, call, value: _after(
        call(store.list.append, "k", value), call(store.list.range, "k")[0]
    ),
    "list.last": lambda store, call, value: _after(
        call(store.list.append, "k", value), call(store.list.last, "k", 1)[0]
    ),
    "queue.dequeue": lambda store, call, value: _after(
        call(store.queue.enqueue, "k", value), call(store.queue.dequeue, "k")
    ),
    "queue.peek": lambda store, call, value: _after(call(store.queue.enqueue, "k", value), call(store.queue.peek, "k")),
    "queue.take": lambda store, call, value: _after(
        call(store.queue.enqueue, "k", value), getattr(call(store.queue.take, "k"), "value", None)
    ),
    "handoff.get": lambda store, call, value: _after(
        call(store.handoff.set, "k", {"v": value}, 60), (call(store.handoff.get, "k") or {})["v"]
    ),
    "handoff.get_and_delete": lambda store, call, value: _after(
        call(store.handoff.set, "k", {"v": value}, 60), (call(store.handoff.get_and_delete, "k") or {})["v"]
    ),
    "durable": _durable,
}
"""How a value can go into a store and come back."""

ways = pytest.mark.parametrize("way", WAYS)


class ValueConformance(Conformance):
    """Hold a backend to the rules of values, whatever facet they go through."""

    @ways
    def test_a_value_comes_back_equal_and_of_the_same_type(self, store: Store, call: Call, way: str) -> None:
        for name, value in VALUES.items():
            here = store.namespace(name)
            assert alike(WAYS[way](here, call, value), value), name

    @ways
    def test_an_empty_value_is_a_value(self, store: Store, call: Call, way: str) -> None:
        for number, value in enumerate(EMPTY_VALUES):
            assert alike(WAYS[way](store.namespace(str(number)), call, value), value), value

    @ways
    def test_not_a_number_comes_back_as_such(self, store: Store, call: Call, way: str) -> None:
        (read,) = WAYS[way](store, call, [math.nan])
        assert isinstance(read, float)
        assert math.isnan(read)

    @ways
    def test_nothing_is_shared_by_reference(self, store: Store, call: Call, way: str) -> None:
        value = {"a": [1]}
        read = WAYS[way](store, call, value)
        read["a"].append(2)
        value["a"].append(3)
        again = WAYS[way](store.namespace("again"), call, {"a": [1]})
        assert (read, value, again) == ({"a": [1, 2]}, {"a": [1, 3]}, {"a": [1]})

    def test_what_is_stored_is_beyond_the_reach_of_who_wrote_or_read_it(self, store: Store, call: Call) -> None:
        value, expected = {"a": [1]}, {"a": [1]}
        call(store.kv.set, "k", value)
        call(store.list.append, "k", value)
        call(store.queue.enqueue, "k", value)
        call(store.handoff.set, "k", value, 60)
        call(store.durable.save, "k", checkpoint(value))
        value["a"].append(2)
        for _ in range(2):
            loaded = call(store.durable.load, "k")
            assert loaded is not None
            reads = (
                call(store.kv.get, "k"), call(store.list.range, "k")[0], call(store.queue.peek, "k"),
                call(store.handoff.get, "k"), loaded.state,
            )  # fmt: skip
            for read in reads:
                assert read == expected
                read["a"].append(3)

    @ways
    @pytest.mark.parametrize("name", BAD_VALUES)
    def test_what_would_not_come_back_is_refused_by_its_path(
        self, store: Store, call: Call, way: str, name: str
    ) -> None:
        value, path = BAD_VALUES[name]
        if way.startswith("handoff"):  # whose state is an object around it
            path = path.replace(r"^\$", r"^\$\.v")
        with pytest.raises(ValueNotSerializable, match=path) as caught:
            WAYS[way](store, call, value)
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, ValueError)

    def test_a_value_that_is_refused_leaves_the_old_one(self, store: Store, call: Call) -> None:
        call(store.kv.set, "k", "old")
        call(store.handoff.set, "k", {"old": 1}, 60)
        call(store.durable.save, "k", checkpoint("old"))
        for value, _ in BAD_VALUES.values():
            for refused in (
                lambda value=value: call(store.kv.set, "k", value),
                lambda value=value: call(store.kv.add, "new", value),
                lambda value=value: call(store.list.append, "new", value),
                lambda value=value: call(store.queue.enqueue, "new", value),
                lambda value=value: call(store.handoff.set, "k", {"v": value}, 60),
                lambda value=value: call(store.durable.save, "k", checkpoint(value)),
            ):
                with pytest.raises(ValueNotSerializable):
                    refused()
        loaded = call(store.durable.load, "k")
        assert loaded is not None
        assert (call(store.kv.get, "k"), call(store.handoff.get, "k"), loaded.state) == ("old", {"old": 1}, "old")
        assert [call(facet.size) for facet in (store.kv, store.list, store.queue, store.handoff)] == [1, 0, 0, 1]
