"""Every write of list, queue, handoff and spool joins the caller's transaction: it comes and goes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

from django_statestore import Store
from django_statestore.backends.database import DatabaseBackend
from django_statestore.contracts.queue import Item
from django_statestore.exceptions import BlobGone, InvalidArgument, QueueFull, TransactionRefused
from django_statestore.testing import age
from tests.aliases import another_alias
from tests.calling import Call
from tests.unit.spools import at_once, chunks_of

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

LONG = b"0123456789\n" * 10


def prepare(store: Store) -> list[Item]:
    """Make a list, a queue, a state and a spool; return the two items that are taken."""
    for number in range(3):
        store.list.append("k", number, ttl=60)
    for number in range(5):
        store.queue.enqueue("k", number)
    store.queue.enqueue("k", "dead", ttl=10)
    store.handoff.set("dead", {}, 10)
    age(store, 11)
    store.handoff.set("k", {"a": 1}, 60)
    store.spool.write("k", "first")
    store.spool.write("k", "second")
    items = [store.queue.take("k", lease=60) for _ in range(2)]
    return [item for item in items if item]


Operation = Callable[[Store, Call, list[Item]], Any]
WRITES: dict[str, Operation] = {
    "list.append": lambda store, call, taken: call(store.list.append, "k", "new"),
    "list.append fresh": lambda store, call, taken: call(store.list.append, "fresh", "new", ttl=60),
    "list.append that drops": lambda store, call, taken: call(store.list.append, "k", "new", max_len=2),
    "list.trim": lambda store, call, taken: call(store.list.trim, "k", 1),
    "list.delete": lambda store, call, taken: call(store.list.delete, "k"),
    "list.clear": lambda store, call, taken: call(store.list.clear),
    "queue.enqueue": lambda store, call, taken: call(store.queue.enqueue, "k", "new", ttl=60),
    "queue.enqueue fresh": lambda store, call, taken: call(store.queue.enqueue, "fresh", "new"),
    "queue.enqueue that evicts": lambda store, call, taken: call(store.queue.enqueue, "k", "new", 2),
    "queue.enqueue that is refused": lambda store, call, taken: call(store.queue.enqueue, "k", "new", 5, "drop-newest"),
    "queue.dequeue": lambda store, call, taken: call(store.queue.dequeue, "k"),
    "queue.take": lambda store, call, taken: call(store.queue.take, "k"),
    "queue.ack": lambda store, call, taken: call(store.queue.ack, "k", taken[0].token),
    "queue.release": lambda store, call, taken: call(store.queue.release, "k", taken[1].token, 5),
    "queue.delete": lambda store, call, taken: call(store.queue.delete, "k"),
    "queue.clear": lambda store, call, taken: call(store.queue.clear),
    "handoff.set": lambda store, call, taken: call(store.handoff.set, "k", {"new": 1}, 60),
    "handoff.set fresh": lambda store, call, taken: call(store.handoff.set, "fresh", {"new": 1}, 60),
    "handoff.set expired": lambda store, call, taken: call(store.handoff.set, "dead", {"new": 1}, 60),
    "handoff.issue": lambda store, call, taken: call(store.handoff.issue, {"new": 1}, 60),
    "handoff.get_and_delete": lambda store, call, taken: call(store.handoff.get_and_delete, "k"),
    "handoff.delete": lambda store, call, taken: call(store.handoff.delete, "k"),
    "handoff.clear": lambda store, call, taken: call(store.handoff.clear),
    "spool.write": lambda store, call, taken: call(store.spool.write, "k", "new"),
    "spool.write fresh": lambda store, call, taken: call(store.spool.write, "fresh", "new"),
    "spool.write in pieces": lambda store, call, taken: call(store.spool.write, "k", iter([LONG, LONG])),
    "spool.delete": lambda store, call, taken: call(store.spool.delete, "k"),
    "spool.clear": lambda store, call, taken: call(store.spool.clear),
}

TABLES = {
    "statestore_list": "namespace = %s",
    "statestore_list_item": "list_id in (select id from statestore_list where namespace = %s)",
    "statestore_queue": "namespace = %s",
    "statestore_queue_item": "queue_id in (select id from statestore_queue where namespace = %s)",
    "statestore_handoff": "namespace = %s",
    "statestore_spool_entry": "namespace = %s",
    "statestore_spool_blob": "namespace = %s",
    "statestore_spool_chunk": "blob_id in (select id from statestore_spool_blob where namespace = %s)",
}


def rows(store: Store, alias: str | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """Return every column of every row of a store's namespace."""
    found = {}
    with connections[alias or store.alias].cursor() as cursor:
        for table, which in TABLES.items():
            cursor.execute(f"select * from {table} where {which} order by id", [store.names[0]])
            rows = cursor.fetchall()
            found[table] = [tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in rows]
    return found


def told(store: Store) -> dict[str, Any]:
    """Return what a caller can learn of a namespace without changing it."""
    reader = store.spool.read("k")
    return {
        "list": [(store.list.range(key), store.list.length(key)) for key in ("k", "fresh")],
        "queue": [(store.queue.peek(key), store.queue.depth(key)) for key in ("k", "fresh")],
        "handoff": [store.handoff.get(key) for key in ("k", "fresh", "dead")],
        "spool": [reader and reader.read_bytes(), store.spool.read("fresh") is None],
        "sizes": [facet.size() for facet in (store.list, store.queue, store.handoff, store.spool)],
        "keys": [
            [(item.key, item.size) for item in facet.scan().items] for facet in (store.list, store.queue, store.spool)
        ],
    }


def groups(alias: str) -> list[str]:
    return list(Group.objects.using(alias).order_by("name").values_list("name", flat=True))


def each(store: Store) -> Iterator[tuple[str, Store, list[Item]]]:
    """Yield each operation with a prepared namespace of its own."""
    for name in WRITES:
        fresh = DatabaseBackend(alias=store.alias, database=store.alias).store()
        here = fresh.namespace(f"{'/'.join(store.names)} {name}")
        with chunks_of(here, 4):  # LONG is more than one step writes
            yield name, here, prepare(here)


class Undo(Exception):
    """Take back a block."""


def test_what_was_rolled_back_never_happened(store: Store, call: Call) -> None:
    for name, here, taken in each(store):
        before, told_before = rows(here), told(here)
        with pytest.raises(Undo), transaction.atomic(using=store.alias):
            WRITES[name](here, call, taken)
            raise Undo
        assert rows(here) == before, name
        assert told(here) == told_before, name


def test_a_savepoint_takes_back_no_more_than_its_own(store: Store, call: Call) -> None:
    for name, here, taken in each(store):
        with transaction.atomic(using=store.alias):
            store.kv.set(name, "outer")
            before = rows(here)
            with pytest.raises(Undo), transaction.atomic(using=store.alias):
                WRITES[name](here, call, taken)
                raise Undo
            assert rows(here) == before, name
        assert store.kv.get(name) == "outer"


def test_in_a_block_a_write_does_what_it_does_alone(store: Store, call: Call) -> None:
    alone = {}
    for name, here, taken in each(store):
        WRITES[name](here, call, taken)
        alone[name] = told(here)
    for name, here, taken in each(store.namespace("again")):
        with transaction.atomic(using=store.alias):
            WRITES[name](here, call, taken)
            assert told(here) == alone[name], name
        assert told(here) == alone[name], name


def test_others_see_a_write_only_after_the_commit(store: Store, call: Call) -> None:
    with another_alias(store.alias) as other:

        def look(here: Store) -> dict[str, Any]:
            found: list[dict[str, Any]] = []
            there = DatabaseBackend(database=other).store().at(here.names)
            at_once(lambda: found.append(told(there)))
            return found[0]

        for name, here, taken in each(store):
            before = told(here)
            with transaction.atomic(using=store.alias):
                WRITES[name](here, call, taken)
                assert look(here) == before, name
                inside = told(here)
            assert look(here) == inside, name


def test_no_key_that_is_there_poisons_the_transaction(store: Store, call: Call) -> None:
    """Nor any that is not: an operation meets each kind once."""
    for name, here, taken in each(store):
        with transaction.atomic(using=store.alias):
            Group.objects.using(store.alias).create(name=f"{name}, before")
            WRITES[name](here, call, taken)
            WRITES[name](here, call, taken)
            Group.objects.using(store.alias).create(name=f"{name}, after")
    assert groups(store.alias) == sorted(f"{name}, {when}" for name in WRITES for when in ("before", "after"))


def test_no_refusal_poisons_the_transaction(store: Store, call: Call) -> None:
    reader = store.spool.write("c", "text")
    store.queue.enqueue("q", 1)
    refusals: list[tuple[type[Exception], Callable[[], Any]]] = [
        (QueueFull, lambda: call(store.queue.enqueue, "q", 2, 1, "reject")),
        (InvalidArgument, lambda: call(store.list.range, "k", -1)),
        (BlobGone, lambda: call(store.spool.open, {**reader.ref, "spool": "0" * 32})),
        (TypeError, lambda: call(store.spool.write, "c", iter(["no bytes"]))),  # type: ignore[arg-type]
        (TransactionRefused, lambda: call(store.lock.acquire, "k")),
    ]
    with transaction.atomic(using=store.alias):
        for number, (error, refused) in enumerate(refusals):
            with pytest.raises(error):
                refused()
            Group.objects.using(store.alias).create(name=f"after {number}")
    assert len(groups(store.alias)) == len(refusals)
    assert (store.queue.depth("q"), call(reader.read_all)) == (1, "text")


# -- without autocommit -----------------------------------------------------------------------------------------------


@contextmanager
def manual(store: Store) -> Iterator[Callable[[Store], Store]]:
    """Give the way to the same namespace on an alias with ``AUTOCOMMIT: False``."""
    with another_alias(store.alias, AUTOCOMMIT=False) as alias:
        backend = DatabaseBackend(database=alias, alias=alias)
        backend.spool_chunk_size = 4
        yield lambda here: backend.store().at(here.names)


def test_without_autocommit_a_rollback_takes_back_every_write(store: Store, call: Call) -> None:
    with manual(store) as way:
        for name, here, taken in each(store):
            before, there = rows(here), way(here)
            WRITES[name](there, call, taken)
            transaction.rollback(using=there.alias)
            assert rows(here) == before, name


def test_without_autocommit_a_commit_keeps_every_write(store: Store, call: Call) -> None:
    with manual(store) as way:
        for name, here, taken in each(store):
            there = way(here)
            WRITES[name](there, call, taken)
            inside = told(there)
            transaction.commit(using=there.alias)
            assert told(here) == inside, name


# -- a second alias of the same database ------------------------------------------------------------------------------


def test_on_a_second_alias_a_write_is_not_part_of_the_block(postgres: Store, call: Call) -> None:
    """It is there for everybody at once, and stays when the block on the first alias is rolled back."""
    store = postgres
    with another_alias(store.alias) as second:
        backend = DatabaseBackend(database=second, alias=second)
        backend.spool_chunk_size = 4
        for name, here, taken in each(store):
            there = backend.store().at(here.names)
            before = rows(here)
            with pytest.raises(Undo), transaction.atomic(using=store.alias):
                Group.objects.using(store.alias).create(name=name)
                WRITES[name](there, call, taken)
                seen = rows(here)
                raise Undo
            assert rows(here) == seen, name
            assert seen != before or name == "queue.enqueue that is refused", name
    assert groups(store.alias) == []
