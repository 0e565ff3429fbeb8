"""queue against Python's lists of items. A token stays in play when it is stale, and is tried at other queues."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from django_statestore.contracts.queue import Item, Overflow
from django_statestore.contracts.tokens import token_digest
from django_statestore.exceptions import QueueFull
from django_statestore.models import QueueHead

from .grounds import Ground
from .machine import (
    FacetMachine,
    Model,
    Place,
    check,
    doors,
    durations,
    has_rows,
    has_tokens,
    keys,
    places,
    recent,
    seconds,
    ttls,
)

MISSING = object()

ROWS = """
select namespace, key, stored, q.seq, i.seq, value, token, deliveries
from statestore_queue q left join statestore_queue_item i on i.queue_id = q.id
"""

policies: st.SearchStrategy[Overflow] = st.sampled_from(["drop-oldest", "drop-newest", "reject"])


@dataclass
class Waiting:
    """Be an item in a queue; until ``hidden_until`` nobody gets it."""

    value: int
    end: float | None
    token: str | None = None
    hidden_until: float = 0.0
    deliveries: int = 0

    def row(self) -> tuple[str, bytes | None, int]:
        return str(self.value), None if self.token is None else token_digest(self.token), self.deliveries


class QueueModel(Model):
    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str, list[Waiting]] = {}

    def items(self, key: str) -> list[Waiting]:
        """Return the live items, for good or ill; the dead ones are forgotten."""
        items = [item for item in self.queues.get(key, []) if self.lies_ahead(item.end)]
        self.queues[key] = items
        return items

    def first(self, key: str) -> Waiting | None:
        return next((item for item in self.items(key) if item.hidden_until <= self.now), None)

    def taken(self, key: str, token: str) -> Waiting | None:
        return next((item for item in self.items(key) if item.token == token), None)

    def enqueue(self, key: str, value: int, max_size: int | None, drop_oldest: bool, ttl: float | None) -> bool:
        items = self.items(key)
        over = 0 if max_size is None else max(0, len(items) + 1 - max_size)
        if over and not drop_oldest:
            return False
        del items[:over]
        items.append(Waiting(value, self.after(ttl)))
        return True

    def living(self) -> dict[str, tuple[int, float | None]]:
        queues = {key: self.items(key) for key in [*self.queues]}
        return {key: (sum(len(str(item.value)) for item in items), None) for key, items in queues.items() if items}

    def clear(self) -> None:
        self.queues.clear()


class QueueMachine(FacetMachine[QueueModel]):
    facet = "queue"
    orphans = "select count(*) from statestore_queue_item where queue_id not in (select id from statestore_queue)"
    model = QueueModel

    @rule(at=places, key=keys, ttl=ttls)
    def enqueue(self, at: int, key: str, ttl: float | None) -> None:
        facet, model = self.at(at)
        value = self.next_value()
        model.enqueue(key, value, None, True, ttl)
        assert self.call(facet.enqueue, key, value, ttl=seconds(ttl)) == len(model.items(key))

    @rule(at=places, key=keys, max_size=st.integers(1, 4), on_full=policies, ttl=ttls)
    def enqueue_within(self, at: int, key: str, max_size: int, on_full: Overflow, ttl: float | None) -> None:
        facet, model = self.at(at)
        value = self.next_value()
        fits = model.enqueue(key, value, max_size, on_full == "drop-oldest", ttl)
        if fits or on_full == "drop-newest":
            depth = self.call(facet.enqueue, key, value, max_size, on_full, seconds(ttl))
            assert depth == len(model.items(key))
        else:
            with pytest.raises(QueueFull, match=f" {len(model.items(key))} items"):
                self.call(facet.enqueue, key, value, max_size, on_full, seconds(ttl))

    @rule(at=places, key=keys)
    def dequeue(self, at: int, key: str) -> None:
        facet, model = self.at(at)
        first = model.first(key)
        expected = MISSING if first is None else first.value
        assert self.call(facet.depth, key) == len(model.items(key))
        assert self.call(facet.peek, key, MISSING) == expected
        assert self.call(facet.dequeue, key, MISSING) == expected
        if first:
            model.items(key).remove(first)

    @rule(at=places, key=keys, lease=durations)
    def take(self, at: int, key: str, lease: float) -> None:
        facet, model = self.at(at)
        first = model.first(key)
        item: Item | None = self.call(facet.take, key, seconds(lease))
        assert (item is None) is (first is None)
        if item is not None and first is not None:
            first.token, first.hidden_until = item.token, model.now + lease
            first.deliveries += 1
            assert (item.key, item.value, item.deliveries) == (key, first.value, first.deliveries)
            self.tokens.append((at, item))

    @has_tokens
    @rule(which=recent, door=doors, delay=st.sampled_from([None, 0, 0, 1.5, 4.5]))
    def settle(self, which: int, door: str, delay: float | None) -> None:
        """Release an item with that delay; without one, acknowledge it."""
        home, item = self.pick(which)
        at, key = self.through(home, item.key, door)
        facet, model = self.at(at)
        mine = model.taken(key, item.token)
        if delay is None:
            done = self.call(item.ack) if door == "own" else self.call(facet.ack, key, item.token)
        elif door == "own":
            done = self.call(item.release, seconds(delay))
        else:
            done = self.call(facet.release, key, item.token, seconds(delay))
        assert done is (mine is not None)
        if mine and delay is None:
            model.items(key).remove(mine)
        elif mine and delay is not None:
            mine.token, mine.hidden_until = None, model.now + delay

    @rule(at=places, key=keys)
    def delete(self, at: int, key: str) -> None:
        facet, model = self.at(at)
        assert self.call(facet.delete, key) is bool(model.items(key))
        model.queues.pop(key, None)

    @invariant()
    def every_queue_has_its_depth_and_its_first_item(self) -> None:
        for place in self.places:
            facet = self.facet_of(place)
            for key in [*place.model.queues]:
                first = place.model.first(key)
                assert facet.depth(key) == len(place.model.items(key)), key
                assert facet.peek(key, MISSING) == (MISSING if first is None else first.value), key

    @invariant()
    @has_rows
    def the_head_counts_the_rows_and_they_are_the_items(self) -> None:
        every = self.rows(ROWS)
        for place in self.places:
            heads: dict[tuple[str, int, int], dict[int, tuple[str, bytes | None, int]]] = {}
            for key, stored, dealt, seq, value, token, deliveries in every[place.namespace]:
                rows = heads.setdefault((key, stored, dealt), {})
                if seq is not None:
                    rows[seq] = (value, None if token is None else bytes(token), deliveries)
            for (key, stored, dealt), rows in heads.items():
                assert stored == len(rows), key
                assert max(rows, default=0) <= dealt, key
                expected = [item.row() for item in place.model.items(key)]
                values = [value for value, _, _ in expected]
                assert [rows[seq] for seq in sorted(rows) if rows[seq][0] in values] == expected, key

    def check_purged(self, place: Place[QueueModel]) -> None:
        heads = QueueHead.objects.using(self.ground.name).filter(namespace=place.namespace)
        assert {head.key: head.stored for head in heads} == {
            key: len(place.model.items(key)) for key in place.model.living()
        }


@pytest.mark.django_db(databases="__all__")
def test_queue_agrees_with_lists_of_items(ground: Ground) -> None:
    check(QueueMachine, ground)
