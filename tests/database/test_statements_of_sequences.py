"""How many statements list, queue and handoff take; BEGIN and COMMIT are not counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore import Store
from django_statestore.contracts.queue import Item
from django_statestore.exceptions import QueueFull
from django_statestore.services.purge import purge
from django_statestore.testing import age
from tests.calling import Call

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

Operation = Callable[[Store, Call], Any]


def take(store: Store, key: str) -> Item:
    item = store.queue.take(key)
    assert item is not None
    return item


def prepare(store: Store) -> None:
    """Make a list and a queue of each kind, and forget what is being counted."""
    for name in ("expired", "expired too"):
        store.list.append(name, 1, ttl=10)
        store.queue.enqueue(name, 1, ttl=10)
        store.handoff.set(name, {}, ttl=10)
    for number in range(4):
        store.queue.enqueue("mixed", number, ttl=None if number % 2 else 10)
    age(store, 11)
    for key in ("live", "live too"):
        for number in range(4):
            store.list.append(key, number, ttl=60)
            store.queue.enqueue(key, number)
        store.handoff.set(key, {"a": 1}, ttl=60)


# On PostgreSQL, and on SQLite.
STATEMENTS: dict[str, tuple[int, int, Operation]] = {
    "list.append fresh": (1, 2, lambda store, call: call(store.list.append, "fresh", 1, ttl=5)),
    "list.append": (1, 2, lambda store, call: call(store.list.append, "live", 1)),
    "list.append beyond its limit": (1, 3, lambda store, call: call(store.list.append, "live", 1, max_len=2)),
    "list.append below its limit": (1, 2, lambda store, call: call(store.list.append, "live too", 1, max_len=9)),
    "list.append expired": (1, 3, lambda store, call: call(store.list.append, "expired", 1, 5, 60)),
    "list.range": (1, 1, lambda store, call: call(store.list.range, "live", 0, 1)),
    "list.range nothing": (1, 1, lambda store, call: call(store.list.range, "none")),
    "list.last": (1, 1, lambda store, call: call(store.list.last, "live", 2)),
    "list.length": (1, 1, lambda store, call: call(store.list.length, "live")),
    "list.length expired": (1, 1, lambda store, call: call(store.list.length, "expired too")),
    "list.trim": (1, 2, lambda store, call: call(store.list.trim, "live", 1)),
    "list.trim nothing": (1, 1, lambda store, call: call(store.list.trim, "none", 1)),
    "list.delete": (1, 2, lambda store, call: call(store.list.delete, "live")),
    "list.delete nothing": (1, 1, lambda store, call: call(store.list.delete, "none")),
    "list.size": (1, 1, lambda store, call: call(store.list.size)),
    "list.scan": (1, 1, lambda store, call: call(store.list.scan)),
    "list.clear": (2, 2, lambda store, call: call(store.list.clear)),
    "queue.enqueue fresh": (2, 2, lambda store, call: call(store.queue.enqueue, "fresh", 1, ttl=5)),
    "queue.enqueue": (2, 2, lambda store, call: call(store.queue.enqueue, "live", 1, max_size=9)),
    "queue.enqueue that evicts": (2, 4, lambda store, call: call(store.queue.enqueue, "live too", 1, 2)),
    "queue.enqueue that is refused": (2, 2, lambda store, call: call(store.queue.enqueue, "live", 1, 2, "drop-newest")),
    "queue.enqueue among expired": (2, 3, lambda store, call: call(store.queue.enqueue, "expired", 1, 2)),
    "queue.enqueue that evicts too": (2, 4, lambda store, call: call(store.queue.enqueue, "mixed", 1, 1)),
    "queue.dequeue": (2, 2, lambda store, call: call(store.queue.dequeue, "live")),
    "queue.dequeue nothing": (1, 1, lambda store, call: call(store.queue.dequeue, "none")),
    "queue.dequeue expired": (2, 2, lambda store, call: call(store.queue.dequeue, "expired too")),
    "queue.take": (2, 1, lambda store, call: call(store.queue.take, "live")),
    "queue.take nothing": (1, 1, lambda store, call: call(store.queue.take, "none")),
    "queue.peek": (1, 1, lambda store, call: call(store.queue.peek, "live")),
    "queue.peek nothing": (1, 1, lambda store, call: call(store.queue.peek, "none")),
    "queue.depth": (1, 1, lambda store, call: call(store.queue.depth, "live")),
    "queue.depth nothing": (1, 1, lambda store, call: call(store.queue.depth, "none")),
    "queue.ack stale": (2, 1, lambda store, call: call(store.queue.ack, "live", "stale")),
    "queue.release stale": (2, 1, lambda store, call: call(store.queue.release, "live", "stale")),
    "queue.delete": (3, 2, lambda store, call: call(store.queue.delete, "live")),
    "queue.delete nothing": (2, 1, lambda store, call: call(store.queue.delete, "none")),
    "queue.size": (1, 1, lambda store, call: call(store.queue.size)),
    "queue.scan": (1, 1, lambda store, call: call(store.queue.scan)),
    "queue.clear": (2, 2, lambda store, call: call(store.queue.clear)),
    "handoff.set fresh": (1, 1, lambda store, call: call(store.handoff.set, "fresh", {}, 60)),
    "handoff.set live": (1, 1, lambda store, call: call(store.handoff.set, "live", {}, 60)),
    "handoff.set expired": (1, 1, lambda store, call: call(store.handoff.set, "expired", {}, 60)),
    "handoff.issue": (1, 1, lambda store, call: call(store.handoff.issue, {}, 60)),
    "handoff.get": (1, 1, lambda store, call: call(store.handoff.get, "live")),
    "handoff.get nothing": (1, 1, lambda store, call: call(store.handoff.get, "none")),
    "handoff.get_and_delete": (1, 1, lambda store, call: call(store.handoff.get_and_delete, "live")),
    "handoff.get_and_delete nothing": (1, 1, lambda store, call: call(store.handoff.get_and_delete, "none")),
    "handoff.delete": (1, 1, lambda store, call: call(store.handoff.delete, "live too")),
    "handoff.delete nothing": (1, 1, lambda store, call: call(store.handoff.delete, "none")),
    "handoff.size": (1, 1, lambda store, call: call(store.handoff.size)),
    "handoff.clear": (1, 1, lambda store, call: call(store.handoff.clear)),
}


def counted(store: Store, operate: Callable[[], object]) -> int:
    with CaptureQueriesContext(connections[store.alias]) as sent:
        operate()
    return len([query for query in sent.captured_queries if query["sql"] not in ("BEGIN", "BEGIN IMMEDIATE", "COMMIT")])


def expected(store: Store, postgres: int, sqlite: int) -> int:
    return sqlite if connections[store.alias].vendor == "sqlite" else postgres


def test_how_many_statements_an_operation_takes(store: Store, call: Call) -> None:
    prepare(store)
    found, wanted = dict[str, int](), dict[str, int]()
    for name, (postgres, sqlite, operate) in STATEMENTS.items():
        found[name] = counted(store, lambda: operate(store, call))  # noqa: B023
        wanted[name] = expected(store, postgres, sqlite)
    assert found == wanted


def test_what_is_done_with_a_taken_item(store: Store, call: Call) -> None:
    prepare(store)
    first, second = take(store, "live"), take(store, "live")
    assert counted(store, lambda: call(first.ack)) == 2
    assert counted(store, lambda: call(second.release, 5)) == expected(store, 2, 1)


def test_a_refusal_costs_what_a_full_queue_costs(store: Store, call: Call) -> None:
    prepare(store)

    def refused() -> None:
        with pytest.raises(QueueFull):
            call(store.queue.enqueue, "live", 1, 4, "reject")

    assert counted(store, refused) == 2


def test_one_transaction_an_operation(store: Store, call: Call) -> None:
    """A statement alone has none of its own: BEGIN and COMMIT would be two more round trips."""
    prepare(store)
    postgres = connections[store.alias].vendor == "postgresql"
    for operate, alone in (
        (lambda: call(store.list.append, "live", 1), postgres),
        (lambda: call(store.list.range, "live"), True),
        (lambda: call(store.queue.depth, "live"), True),
        (lambda: call(store.queue.take, "live"), not postgres),
        (lambda: call(store.queue.enqueue, "live", 1), False),
        (lambda: call(store.handoff.get_and_delete, "live"), True),
    ):
        with CaptureQueriesContext(connections[store.alias]) as sent:
            operate()
        texts = [query["sql"] for query in sent.captured_queries]
        assert texts.count("COMMIT") == (0 if alone else 1)
        assert len([text for text in texts if text.startswith("BEGIN")]) == (0 if alone else 1)


def test_a_purge_holds_a_queue_for_one_batch_at_a_time(store: Store) -> None:
    for number in range(25):
        store.queue.enqueue("long", number, ttl=10 if number < 23 else 60)
    age(store, 11)
    with CaptureQueriesContext(connections[store.alias]) as sent:
        assert purge(store.alias, batch_size=10)["queue"] == 23
    texts = [query["sql"].strip() for query in sent.captured_queries]
    assert len([text for text in texts if text.startswith("delete from statestore_queue_item")]) == 3
    assert store.queue.depth("long") == 2
