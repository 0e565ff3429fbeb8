"""What is kept right where two change the same thing, and one runs into the transaction of the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

from django_statestore import Store
from django_statestore.exceptions import TransactionConflict
from django_statestore.models import QueueHead, QueueItem
from django_statestore.services.purge import purge
from django_statestore.testing import age
from tests.unit.spools import at_once

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def beside(
    store: Store, in_a_transaction: Callable[[], object], runs_into_it: Callable[[], object], *, commits: bool = True
) -> None:
    """Let the second run into the locks of the first, which ends as soon as the second waits."""
    done = threading.Event()

    def first() -> None:
        with transaction.atomic(using=store.alias):
            in_a_transaction()
            done.set()
            wait_for_a_waiter(store)
            transaction.set_rollback(not commits, using=store.alias)

    def second() -> None:
        assert done.wait(20)
        runs_into_it()

    at_once(first, second)


def wait_for_a_waiter(store: Store) -> None:
    waiting = "select count(*) from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"
    with connections[store.alias].cursor() as cursor:
        for _ in range(2000):
            cursor.execute(waiting)
            if cursor.fetchone()[0]:
                return
            cursor.execute("select pg_sleep(0.01)")
    raise AssertionError("nobody waits")


@contextmanager
def after_statement(store: Store, which: str, act: Callable[[], object]) -> Iterator[None]:
    """Do something in another thread right after the first statement that contains a text."""
    done: list[object] = []

    def wrapper(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        result = execute(sql, params, many, context)
        if which in sql and not done:
            done.append(None)
            at_once(act)
        return result

    with connections[store.alias].execute_wrapper(wrapper):
        yield
    assert done


def check_counts(store: Store) -> None:
    """Check that every head of the store's namespace counts the rows that it has."""
    for head in QueueHead.objects.using(store.alias).filter(namespace=store.names[0]):
        assert head.stored == QueueItem.objects.using(store.alias).filter(queue=head).count(), head.key


def test_a_queue_that_begins_while_its_namespace_is_cleared_stays_whole(postgres: Store) -> None:
    store = postgres
    store.queue.enqueue("old", 1)
    with after_statement(store, "update statestore_queue", lambda: store.queue.enqueue("new", 2)):
        store.queue.clear()
    check_counts(store)
    assert (store.queue.depth("old"), store.queue.depth("new")) == (0, 1)
    assert store.queue.dequeue("new") == 2


def test_an_enqueue_that_waited_for_a_clear_is_kept(postgres: Store) -> None:
    store = postgres
    store.queue.enqueue("q", 1)
    beside(store, lambda: store.queue.clear(), lambda: store.queue.enqueue("q", 2))
    check_counts(store)
    assert [store.queue.dequeue("q"), store.queue.dequeue("q")] == [2, None]


def test_a_clear_that_waited_for_an_enqueue_takes_its_item_along(postgres: Store) -> None:
    store = postgres
    store.queue.enqueue("q", 1)
    beside(store, lambda: store.queue.enqueue("q", 2), lambda: store.queue.clear())
    check_counts(store)
    assert store.queue.depth("q") == 0


def test_a_delete_that_waited_counts_what_is_there_then(postgres: Store) -> None:
    store, deleted = postgres, list[bool]()
    store.queue.enqueue("q", "dies", ttl=10)
    age(store, 11)
    beside(store, lambda: store.queue.enqueue("q", "lives"), lambda: deleted.append(store.queue.delete("q")))
    assert deleted == [True]
    assert not QueueItem.objects.using(store.alias).exists()


def test_who_waited_for_a_release_leaves_the_item_its_delay(postgres: Store) -> None:
    """The lease of the taker is over, so the other may have the item: unless it was given back first."""
    store, taken = postgres, list[Any]()
    store.queue.enqueue("q", 1)
    item = store.queue.take("q", lease=10)
    assert item is not None
    age(store, 11)
    beside(store, lambda: item.release(delay=60), lambda: taken.append(store.queue.take("q")))
    assert taken == [None]


def test_who_released_in_a_transaction_and_goes_on_is_in_nobody_s_way(postgres: Store) -> None:
    """Whoever changes a queue locks its head first, so two that do cannot wait for each other."""
    store, conflicts = postgres, list[TransactionConflict]()
    store.queue.enqueue("q", 1)
    item = store.queue.take("q", lease=10)
    assert item is not None
    age(store, 11)

    done = threading.Event()

    def first() -> None:
        try:
            with transaction.atomic(using=store.alias):
                item.release()
                done.set()
                wait_for_a_waiter(store)
                store.queue.enqueue("q", 2)
        except TransactionConflict as error:
            conflicts.append(error)

    def second() -> None:
        assert done.wait(20)
        try:
            with transaction.atomic(using=store.alias):
                store.queue.dequeue("q")
        except TransactionConflict as error:
            conflicts.append(error)

    at_once(first, second)
    assert conflicts == []
    check_counts(store)


def test_a_purge_and_an_enqueue_agree_on_what_is_dead(postgres: Store) -> None:
    store = postgres
    for number in range(5):
        store.queue.enqueue("q", number, ttl=10)
    store.queue.enqueue("q", "lives")
    age(store, 11)
    beside(store, lambda: store.queue.enqueue("q", "more"), lambda: purge(store.alias))
    check_counts(store)
    assert store.queue.depth("q") == 2


WRITES: dict[str, Callable[[Store, int], object]] = {
    "list": lambda store, number: store.list.append("fresh", number, max_len=5),
    "queue": lambda store, number: store.queue.enqueue("fresh", number, max_size=5),
    "handoff": lambda store, number: store.handoff.set("fresh", {"number": number}, 60),
    "spool": lambda store, number: store.spool.write("fresh", f"{number}"),
}


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled-back"])
@pytest.mark.parametrize("facet", WRITES)
def test_two_blocks_may_begin_the_same_entry(postgres: Store, facet: str, commits: bool) -> None:
    """The second waits for the first, and its own transaction goes on whatever became of that one."""
    store = postgres
    groups = Group.objects.using(store.alias)

    def first() -> None:
        groups.create(name="first")
        WRITES[facet](store, 1)

    def second() -> None:
        with transaction.atomic(using=store.alias):
            groups.create(name="second, before")
            WRITES[facet](store, 2)
            groups.create(name="second, after")

    beside(store, first, second, commits=commits)
    both = [1, 2] if commits else [2]
    reader = store.spool.read("fresh")
    assert groups.count() == len(both) + 1
    assert {
        "list": lambda: store.list.range("fresh") == both and store.list.length("fresh") == len(both),
        "queue": lambda: [store.queue.dequeue("fresh") for _ in both] == both and store.queue.depth("fresh") == 0,
        "handoff": lambda: store.handoff.get("fresh") == {"number": 2},
        "spool": lambda: reader is not None and reader.read_all() == "2",
    }[facet]()
    check_counts(store)


TTLS: dict[str, tuple[Callable[[Store], object], str]] = {
    "list.append": (lambda store: store.list.append("k", 2, ttl=60), "select expires_at from statestore_list"),
    "queue.enqueue": (
        lambda store: store.queue.enqueue("k", 2, ttl=60),
        "select expires_at from statestore_queue_item where seq = 2",
    ),
    "queue.take": (
        lambda store: store.queue.take("k", lease=60),
        "select hidden_until from statestore_queue_item where seq = 1",
    ),
    "handoff.set": (lambda store: store.handoff.set("k", {}, 60), "select expires_at from statestore_handoff"),
}


@pytest.mark.parametrize("operation", TTLS)
def test_the_ttl_begins_after_the_wait(postgres: Store, operation: str) -> None:
    store = postgres
    store.list.append("k", 1)
    store.queue.enqueue("k", 1)
    store.handoff.set("k", {}, 600)
    write, instant = TTLS[operation]
    locked, never = threading.Event(), threading.Event()

    def lock_all() -> None:
        with connections[store.alias].cursor() as cursor:
            for table in ("list", "queue", "handoff"):
                cursor.execute(f"select 1 from statestore_{table} for update")

    def first() -> None:
        with transaction.atomic(using=store.alias):
            lock_all()
            locked.set()
            wait_for_a_waiter(store)
            never.wait(0.3)

    def second() -> None:
        assert locked.wait(20)
        write(store)

    at_once(first, second)
    with connections[store.alias].cursor() as cursor:
        cursor.execute(f"select extract(epoch from ({instant}) - clock_timestamp())")
        assert 59.75 < cursor.fetchone()[0] <= 60
