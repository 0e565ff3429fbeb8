"""No operation on a long list or queue costs its length: each touches a few rows, by an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from django_statestore import Store
from django_statestore.models import ListHead, QueueHead
from tests.database.plans import watched

LENGTH = 50_000
OTHERS = 500
"""Other lists and queues in the same tables, of one item each."""

SEVERAL = {
    "sqlite": """
        insert into statestore_{head} (digest, namespace, key, seq, {counts})
        with recursive n(n) as (select 1 union all select n + 1 from n where n < {others})
        select randomblob(32), 'others', 'key ' || n, 1, {values} from n
    """,
    "postgresql": """
        insert into statestore_{head} (digest, namespace, key, seq, {counts})
        select sha256(n::text::bytea), 'others', 'key ' || n, 1, {values} from generate_series(1, {others}) n
    """,
}
OF_EACH = """
    insert into statestore_{head}_item ({head}_id, seq, value{more})
    select id, 1, '"value"'{more_values} from statestore_{head} where namespace = 'others'
"""
LONG = {
    "sqlite": """
        insert into statestore_{head}_item ({head}_id, seq, value{more})
        with recursive n(n) as (select 2 union all select n + 1 from n where n < {length})
        select {id}, n, '"value"'{more_values} from n
    """,
    "postgresql": """
        insert into statestore_{head}_item ({head}_id, seq, value{more})
        select {id}, n, '"value"'{more_values} from generate_series(2, {length}) n
    """,
}
NOW = {"sqlite": "cast(round((julianday('now') - 2440587.5) * 86400000) as integer)", "postgresql": "clock_timestamp()"}
HOUR = {"sqlite": "3600000", "postgresql": "interval '1 hour'"}


def fill(store: Store, expiring: bool) -> None:
    """Make a list and a queue of that length, among others; all of it as appends and enqueues would have left it."""
    vendor = connections[store.alias].vendor
    expiry = f"{NOW[vendor]} + {HOUR[vendor]}" if expiring else "null"
    ttl = 3600 if expiring else None
    store.list.append("long", 1, ttl=ttl)
    store.queue.enqueue("long", 1, ttl=ttl)
    list_head = ListHead.objects.using(store.alias).get(namespace=store.names[0])
    queue_head = QueueHead.objects.using(store.alias).get(namespace=store.names[0])
    texts = [
        template.format(
            head=head,
            counts=counts,
            values=values,
            others=OTHERS,
            length=LENGTH,
            id=pk,
            more=more,
            more_values=more_values,
        )
        for head, counts, values, pk, more, more_values in (
            ("list", "floor", "0", list_head.pk, "", ""),
            (
                "queue",
                "stored",
                "1",
                queue_head.pk,
                ", deliveries, expires_at, created_at",
                f", 0, {expiry}, {NOW[vendor]}",
            ),
        )
        for template in (SEVERAL[vendor], OF_EACH, LONG[vendor])
    ]
    with connections[store.alias].cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        cursor.execute(f"update statestore_list set seq = {LENGTH} where id = {list_head.pk}")
        cursor.execute(f"update statestore_queue set seq = {LENGTH}, stored = {LENGTH} where id = {queue_head.pk}")
        cursor.execute("analyze")


OPERATIONS: dict[str, Callable[[Store], Any]] = {
    "list.append": lambda store: store.list.append("long", 1),
    "list.append beyond its limit": lambda store: store.list.append("long", 1, max_len=LENGTH),
    "list.last": lambda store: store.list.last("long", 10),
    "list.range": lambda store: store.list.range("long", 0, 9),
    "list.range at the end": lambda store: store.list.range("long", LENGTH - 10),
    "list.length": lambda store: store.list.length("long"),
    "list.trim": lambda store: store.list.trim("long", LENGTH - 3),
    "queue.enqueue": lambda store: store.queue.enqueue("long", 1),
    "queue.enqueue with a limit": lambda store: store.queue.enqueue("long", 1, max_size=LENGTH * 2),
    "queue.enqueue that evicts": lambda store: store.queue.enqueue("long", 1, max_size=LENGTH),
    "queue.enqueue that is refused": lambda store: store.queue.enqueue("long", 1, LENGTH, "drop-newest"),
    "queue.dequeue": lambda store: store.queue.dequeue("long"),
    "queue.peek": lambda store: store.queue.peek("long"),
    "queue.depth": lambda store: store.queue.depth("long"),
    "queue.take": lambda store: store.queue.take("long"),
    "queue.ack": lambda store: store.queue.ack("long", store.queue.take("long").token),  # type: ignore[union-attr]
    "queue.release": lambda store: store.queue.release("long", store.queue.take("long").token),  # type: ignore[union-attr]
}
ITEMS = ("statestore_list_item", "statestore_queue_item")
ROWS, BLOCKS = 12, 100
"""What an operation may look at on PostgreSQL."""
INSTRUCTIONS = 600
"""What it may run on SQLite, where a row takes seven or more."""


def cost(store: Store, plans: str, operate: Callable[[Store], Any]) -> list[str]:
    """Return what is wrong with the work of an operation."""
    with watched(store, plans) as work:
        operate(store)
    assert work.plans, "nothing was seen"
    faults: list[str] = work.scans(*ITEMS)
    most = INSTRUCTIONS if connections[store.alias].vendor == "sqlite" else ROWS
    if work.touched > most:
        faults.append(f"{work.touched} rows or instructions")
    if work.blocks > BLOCKS:
        faults.append(f"{work.blocks} blocks")
    return faults


PLANS = {
    "sqlite": [""],
    # With the parameters in sight, as the first few times, and without, as a prepared statement is planned later.
    "postgresql": ["force_custom_plan", "force_generic_plan"],
}


@pytest.mark.parametrize("expiring", [False, True], ids=["lasting", "expiring"])
def test_an_operation_looks_at_a_few_rows_by_an_index(store: Store, expiring: bool) -> None:
    fill(store, expiring)
    for plans in PLANS[connections[store.alias].vendor]:
        found = {name: cost(store, plans, operate) for name, operate in OPERATIONS.items()}
        assert {name: faults for name, faults in found.items() if faults} == {}
        assert store.queue.depth("long") == LENGTH - 2


def test_what_does_look_at_all_rows_is_seen_to(store: Store) -> None:
    """So that the test above would see it."""
    fill(store, expiring=False)
    backend: Any = store.backend
    for plans in PLANS[connections[store.alias].vendor]:
        assert cost(store, plans, lambda store: store.list.range("long"))
        assert cost(store, plans, lambda store: store.list.scan())
        without = cost(store, plans, lambda store: backend.rows(f"select 1 from {ITEMS[0]} where value = 'x'", {}))
        assert ITEMS[0] in without[0]
