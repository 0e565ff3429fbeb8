"""An expiry that passes while an operation runs: it is decided by one instant, so its parts never disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import pytest
from django.db import connections

from django_statestore import Store
from django_statestore.models import ListHead, QueueHead, QueueItem
from tests.database.clocks import clock_at

START = 1_800_000_000_000  # milliseconds since 1970
STEP = 10
"""Milliseconds by which the clock moves on."""


@contextmanager
def moving_clock(store: Store) -> Iterator[None]:
    """Let the clock move on with every reading; on SQLite, where one statement has one time, with every statement."""
    backend: Any = store.backend
    real, execute = backend.database.dialect, backend.database.execute
    with pytest.MonkeyPatch.context() as patch, connections[store.alias].cursor() as cursor:
        if real.vendor == "sqlite":
            passed = [START]

            def execute_later(*arguments: Any) -> Any:
                passed[0] += STEP
                return execute(*arguments)

            connections[store.alias].connection.create_function("moving", 0, lambda: passed[0])
            patch.setattr(backend.database, "execute", execute_later)
            now = "moving()"
        else:
            cursor.execute(f"create temp sequence moving start {START} increment {STEP}")
            now = "to_timestamp(nextval('moving') / 1000.0)"
        texts = {field.name: getattr(real, field.name) for field in fields(real)}
        changes = {name: text.replace(real.now, now) for name, text in texts.items() if isinstance(text, str)}
        patch.setattr(backend.database, "dialect", replace(real, **changes, _rendered={}))
        yield
        if real.vendor != "sqlite":
            cursor.execute("drop sequence moving")


TTLS = [number * STEP / 2000 for number in range(1, 40)]
"""Seconds: an expiry between any two of the next readings."""


def test_an_append_either_keeps_the_list_with_its_expiry_or_begins_another_without(store: Store) -> None:
    seen: set[tuple[int, bool]] = set()
    with moving_clock(store):
        for ttl in TTLS:
            key = str(ttl)
            store.list.append(key, "old", ttl=ttl)
            length = store.list.append(key, "new")
            expires = ListHead.objects.using(store.alias).get(namespace=store.names[0], key=key).expires_at is not None
            seen.add((length, expires))
    assert seen == {(1, False), (2, True)}


CHANGES: dict[str, Callable[[Store], object]] = {
    "enqueue": lambda store: store.queue.enqueue("q", "more"),
    "enqueue into a full queue": lambda store: store.queue.enqueue("q", "more", max_size=10),
    "enqueue where it may not": lambda store: store.queue.enqueue("q", "more", 10, "drop-newest"),
    "dequeue": lambda store: store.queue.dequeue("q"),
    "take": lambda store: store.queue.take("q"),
    "ack": lambda store: store.queue.ack("q", "no token"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_queue_keeps_its_count_right_while_item_after_item_expires(store: Store, change: str) -> None:
    head, items = QueueHead.objects.using(store.alias), QueueItem.objects.using(store.alias)
    with moving_clock(store):
        for number in range(20):  # they expire one soon after the other, whatever was enqueued first
            store.queue.enqueue("q", number, ttl=(2000 + number * 7 % 20 * STEP / 3 - number * 2 * STEP) / 1000)
        while store.queue.depth("q") == 20:
            pass
        for _ in range(10):
            CHANGES[change](store)
            at = head.get(namespace=store.names[0])
            assert at.stored == items.filter(queue=at).count()


@pytest.mark.parametrize("later", [0, -3_600_000], ids=["still", "set back"])
def test_the_order_is_not_that_of_the_clock(store: Store, later: int) -> None:
    for start, instant in ((0, 0), (10, later)):
        with clock_at(store, instant):
            for number in range(start, start + 10):
                store.queue.enqueue("q", number)
                store.list.append("l", number)
    assert [store.queue.dequeue("q") for _ in range(20)] == list(range(20))
    assert store.list.range("l") == list(range(20))
