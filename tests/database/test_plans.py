"""No operation on a long list or queue costs its length: each touches a few rows, by an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from django_statestore import Store
from django_statestore.backends.database.queue_find import FEW
from django_statestore.contracts.tokens import token_digest
from django_statestore.models import ListHead, ListItem, QueueHead, QueueItem
from django_statestore.services.purge import purge
from django_statestore.testing import age
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
                "stored, counted_at",
                f"1, {NOW[vendor]}",
                queue_head.pk,
                ", free, deliveries, expires_at, peak, created_at",
                f", true, 0, {expiry}, {expiry}, {NOW[vendor]}",
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


# -- what lies ahead of the first item that is to be had --------------------------------------------------------------

HIDE = """
    update statestore_queue_item set free = false, token = {token}, hidden_until = {now} {until}
    where queue_id = (select id from statestore_queue where namespace = '{namespace}')
        and seq between {first} and {last}
"""
TOKEN = {"sqlite": "randomblob(32)", "postgresql": "sha256(id::text::bytea)"}


def hide(store: Store, until: str, first: int = 1, last: int = LENGTH) -> None:
    """Let somebody have those items, for an hour from now or from an hour and some before."""
    vendor = connections[store.alias].vendor
    text = HIDE.format(
        token=TOKEN[vendor],
        now=NOW[vendor],
        until=until.format(hour=HOUR[vendor]),
        namespace=store.names[0],
        first=first,
        last=last,
    )
    with connections[store.alias].cursor() as cursor:
        cursor.execute(text)


def expire(store: Store) -> None:
    age(store, 3601)


TAKEN, LAPSED = "+ {hour}", "- {hour}"

AHEAD: dict[str, tuple[bool, list[Callable[[Store], None]]]] = {
    "taken": (False, [lambda store: hide(store, TAKEN)]),
    "expired": (True, [expire]),
    "lapsed": (False, [lambda store: hide(store, LAPSED)]),
    "taken and expired": (True, [lambda store: hide(store, TAKEN), expire]),
    "taken, but for some lapsed behind them": (
        False,
        [lambda store: hide(store, TAKEN), lambda store: hide(store, LAPSED, first=LENGTH - 5)],
    ),
}
"""Whether they have a time to live, and what happens to them."""

OVER_ALL: dict[str, Callable[[Store], Any]] = {
    name: OPERATIONS[name]
    for name in (
        "queue.enqueue", "queue.enqueue with a limit", "queue.peek", "queue.take", "queue.dequeue", "queue.ack",
        "queue.release", "queue.depth",
    )
}  # fmt: skip
MORE = {"sqlite": 50_000, "postgresql": 2_500}
"""What an operation may look at, or run, where it finds much to clean: a hundred rows, and the places of one block."""


@pytest.mark.parametrize("ahead", AHEAD)
def test_what_lies_ahead_is_not_passed_one_by_one(store: Store, ahead: str) -> None:
    expiring, happens = AHEAD[ahead]
    vendor = connections[store.alias].vendor
    fill(store, expiring)
    for happen in happens:
        happen(store)
    for number in range(20):
        store.queue.enqueue("long", f"behind {number}", ttl=7200 if expiring else None)
    with connections[store.alias].cursor() as cursor:
        cursor.execute("analyze")
    for plans in PLANS[vendor]:
        for name, operate in OVER_ALL.items():
            with watched(store, plans) as work:
                operate(store)
            assert not work.scans(*ITEMS), name
            assert work.touched <= MORE[vendor], name


@pytest.mark.parametrize("limit", [None, 10])
def test_the_first_enqueue_after_many_have_expired_counts_them_and_buries_a_few(
    store: Store, limit: int | None
) -> None:
    vendor = connections[store.alias].vendor
    rows = QueueItem.objects.using(store.alias).filter(queue__namespace=store.names[0])
    fill(store, expiring=True)
    expire(store)
    with connections[store.alias].cursor() as cursor:
        cursor.execute("analyze")
    seen = []
    for number in (1, 2, 3):
        with watched(store, PLANS[vendor][0]) as work:
            assert store.queue.enqueue("long", number, max_size=limit) == number
        assert not work.scans(*ITEMS)
        seen.append(work.touched)
        assert rows.count() == LENGTH + number - number * FEW
    each = 8 if vendor == "sqlite" else 1  # the instructions or rows that it takes to count one of them
    assert LENGTH < seen[0] < each * LENGTH + MORE[vendor]
    assert max(seen[1:]) < MORE[vendor]
    assert store.queue.depth("long") == 3
    assert [store.queue.dequeue("long") for _ in range(4)] == [1, 2, 3, None]


def test_a_crowd_of_leases_that_end_comes_back_in_its_order_bit_by_bit(store: Store) -> None:
    """As many are still taken ahead of them, and each has its own time."""
    vendor = connections[store.alias].vendor
    fill(store, expiring=False)
    half, back = LENGTH // 2, QueueItem.objects.using(store.alias).filter(queue__namespace=store.names[0], free=True)
    hide(store, TAKEN)
    for number in range(5):
        hide(store, f"{LAPSED} - (seq % 7) * {HOUR[vendor]}", first=half + 1 + number)
    for number in range(1, 6):
        item = store.queue.take("long")
        assert item is not None
        taken = QueueItem.objects.using(store.alias).get(token=token_digest(item.token))
        assert taken.seq == half + number
        assert FEW * number - 5 <= back.count() <= FEW * number


def test_a_purge_takes_so_many_items_of_lists_and_queues_however_long(store: Store) -> None:
    fill(store, expiring=True)
    store.list.append("short", 1, ttl=3600)
    expire(store)
    backend: Any = store.backend
    lists, queues = ListItem.objects.using(store.alias), QueueItem.objects.using(store.alias)
    before = lists.count(), queues.count()
    assert backend.list_purge(700).run() == backend.queue_purge(700).run() == 700
    assert (before[0] - lists.count(), before[1] - queues.count()) == (700, 700)
    assert store.list.length("long") == store.queue.depth("long") == 0
    assert store.list.append("long", "new") == 1
    assert store.queue.enqueue("long", "new") == 1
    purge(store.alias)
    assert (lists.filter(list__namespace=store.names[0]).count(), store.list.range("long")) == (1, ["new"])
    assert (queues.filter(queue__namespace=store.names[0]).count(), store.queue.depth("long")) == (1, 1)


def test_what_does_look_at_all_rows_is_seen_to(store: Store) -> None:
    """So that the test above would see it."""
    fill(store, expiring=False)
    backend: Any = store.backend
    for plans in PLANS[connections[store.alias].vendor]:
        assert cost(store, plans, lambda store: store.list.range("long"))
        assert cost(store, plans, lambda store: store.list.scan())
        without = cost(store, plans, lambda store: backend.rows(f"select 1 from {ITEMS[0]} where value = 'x'", {}))
        assert ITEMS[0] in without[0]
