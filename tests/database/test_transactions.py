"""Transactions: what joins the caller's, what refuses to, and that neither is ever poisoned."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, TestCase, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import path

from django_statestore import Store, stores
from django_statestore.backends.database import DatabaseBackend
from django_statestore.exceptions import TransactionConflict, TransactionRefused
from tests.aliases import DATABASES, another_alias
from tests.calling import Call
from tests.unit.spools import at_once

real_commits = pytest.mark.django_db(databases="__all__", transaction=True)

JOINING: dict[str, Callable[[Store, Call], Any]] = {
    "kv.set": lambda store, call: call(store.kv.set, "k", "new"),
    "kv.add": lambda store, call: call(store.kv.add, "k", "new"),
    "kv.add free": lambda store, call: call(store.kv.add, "free", "new"),
    "kv.consume": lambda store, call: call(store.kv.consume, "k"),
    "kv.delete": lambda store, call: call(store.kv.delete, "k"),
    "kv.touch": lambda store, call: call(store.kv.touch, "k", 5),
    "kv.clear": lambda store, call: call(store.kv.clear),
    "dedup.seen": lambda store, call: call(store.dedup.seen, "k", 60),
    "dedup.seen free": lambda store, call: call(store.dedup.seen, "free", 60),
    "dedup.clear": lambda store, call: call(store.dedup.clear),
}
DURABLE: dict[str, Callable[[Store, Call], Any]] = {
    "lock.acquire": lambda store, call: call(store.lock.acquire, "k"),
    "lock.release": lambda store, call: call(store.lock.release, "k", "token"),
    "lock.extend": lambda store, call: call(store.lock.extend, "k", "token", 60),
    "lock.force_release": lambda store, call: call(store.lock.force_release, "k"),
    "lock.clear": lambda store, call: call(store.lock.clear),
    "dedup.claim": lambda store, call: call(store.dedup.claim, "k", 60),
}


def enter(store: Store, call: Call) -> None:
    """Hold a lock for an empty block."""
    if not call.asynchronous:
        with store.lock.hold("k"):
            return

    async def main() -> None:
        async with store.lock.hold("k"):
            return

    async_to_sync(main)()


ALL_DURABLE = {"lock.hold": enter, **DURABLE}


def look(store: Store) -> tuple[Any, ...]:
    """Return all that is in a namespace."""
    items = store.kv.scan().items + store.dedup.scan().items
    return (store.kv.get("k"), tuple((item.key, item.size, item.expires_in is None) for item in items))


def groups(store: Store) -> list[str]:
    return list(Group.objects.using(store.alias).order_by("name").values_list("name", flat=True))


# -- what joins the caller's transaction ------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", JOINING)
def test_a_write_is_rolled_back_with_the_transaction(store: Store, call: Call, operation: str) -> None:
    store.kv.set("k", "old")
    store.dedup.seen("k", 60)
    before = look(store)
    with transaction.atomic(using=store.alias):
        JOINING[operation](store, call)
        transaction.set_rollback(True, using=store.alias)
    assert look(store) == before


@real_commits
def test_a_write_is_seen_by_others_only_after_the_commit(store: Store, call: Call) -> None:
    if connections[store.alias].vendor == "sqlite":
        with another_alias(store.alias) as other:
            check_isolation(store, other, call)
    else:
        check_isolation(store, store.alias, call)


def check_isolation(store: Store, other: str, call: Call) -> None:
    seen: list[Any] = []

    def outside() -> None:
        seen.append(DatabaseBackend(database=other).store().at(store.names).kv.get("k"))

    with transaction.atomic(using=store.alias):
        call(store.kv.set, "k", "new")
        assert call(store.kv.get, "k") == "new"
        at_once(outside)
    at_once(outside)
    assert seen == [None, "new"]


@real_commits
def test_a_rolled_back_sighting_was_none(store: Store, call: Call) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=store.alias):
        Group.objects.using(store.alias).create(name="one")
        assert call(store.dedup.seen, "event", 60) is False
        assert call(store.dedup.seen, "event", 60) is True
        raise ZeroDivisionError
    assert groups(store) == []
    assert call(store.dedup.seen, "event", 60) is False


def test_a_savepoint_takes_back_what_came_after_it(store: Store, call: Call) -> None:
    with transaction.atomic(using=store.alias):
        call(store.kv.set, "k", "outer")
        with pytest.raises(ZeroDivisionError), transaction.atomic(using=store.alias):
            call(store.kv.set, "k", "inner")
            raise ZeroDivisionError
        assert call(store.kv.get, "k") == "outer"


@real_commits
@pytest.mark.parametrize("operation", ["kv.add", "dedup.seen", "kv.set"])
def test_a_key_conflict_does_not_poison_the_transaction(store: Store, call: Call, operation: str) -> None:
    store.kv.set("k", "old")
    store.dedup.seen("k", 60)
    with transaction.atomic(using=store.alias):
        Group.objects.using(store.alias).create(name="before")
        assert JOINING[operation](store, call) in (False, True, None)
        Group.objects.using(store.alias).create(name="after")
    assert groups(store) == ["after", "before"]
    assert store.dedup.seen("k", 60) is True


@real_commits
def test_a_conflict_with_a_transaction_that_is_still_open_does_not_poison_either(postgres: Store) -> None:
    """Both want the same fresh key; the second waits for the first, and is a repeat."""
    store, alias = postgres, postgres.alias
    first_wrote, results = threading.Event(), dict[str, bool]()

    def first() -> None:
        with transaction.atomic(using=alias):
            results["first"] = store.dedup.seen("event", 60)
            first_wrote.set()
            waiting.wait(0.2)

    def second() -> None:
        assert first_wrote.wait(20)
        with transaction.atomic(using=alias):
            Group.objects.using(alias).create(name="before")
            results["second"] = store.dedup.seen("event", 60)
            results["added"] = store.kv.add("k", 1)
            Group.objects.using(alias).create(name="after")

    waiting = threading.Event()  # never set: it is how long the second is left to run into the first one's row
    at_once(first, second)
    assert results == {"first": False, "second": True, "added": True}
    assert groups(store) == ["after", "before"]


@real_commits
def test_who_waited_for_a_transaction_that_was_rolled_back_is_first(store: Store, alias: str) -> None:
    first_wrote, results = threading.Event(), list[bool]()

    def first() -> None:
        with transaction.atomic(using=alias):
            assert store.dedup.seen("event", 60) is False
            assert store.kv.add("k", "first") is True
            first_wrote.set()
            waiting.wait(0.2)
            transaction.set_rollback(True, using=alias)

    def second() -> None:
        assert first_wrote.wait(20)
        results.append(store.dedup.seen("event", 60))
        results.append(store.kv.add("k", "second"))

    waiting = threading.Event()
    at_once(first, second)
    assert results == [False, True]


# -- what must be durable when it returns -----------------------------------------------------------------------------


@real_commits
def test_what_must_be_durable_is_refused_in_an_open_transaction(store: Store, call: Call) -> None:
    messages = {}
    with transaction.atomic(using=store.alias):
        Group.objects.using(store.alias).create(name="before")
        with CaptureQueriesContext(connections[store.alias]) as sent:
            for operation, operate in ALL_DURABLE.items():
                with pytest.raises(TransactionRefused) as caught:
                    operate(store, call)
                assert isinstance(caught.value, RuntimeError)
                messages[operation] = str(caught.value)
        assert len(sent) == 0
        Group.objects.using(store.alias).create(name="after")
    assert groups(store) == ["after", "before"]
    for operation, message in messages.items():
        named = "lock.acquire" if operation == "lock.hold" else operation
        assert message.startswith(f"{named} must be durable when it returns")
        for remedy in ("outside the block", "transaction.non_atomic_requests", f"{store.alias!r}"):
            assert remedy in message
        assert ("OPTIONS['database']" in message) is (connections[store.alias].vendor != "sqlite")
    for operate in ALL_DURABLE.values():
        operate(store, call)  # outside it works


@real_commits
def test_what_must_be_durable_is_refused_where_autocommit_is_off(store: Store, call: Call) -> None:
    with another_alias(store.alias, AUTOCOMMIT=False) as manual:
        other = DatabaseBackend(database=manual).store().at(store.names)
        for operate in ALL_DURABLE.values():
            with pytest.raises(TransactionRefused, match=f"a transaction is open on the database '{manual}'"):
                operate(other, call)
        transaction.rollback(using=manual)


@real_commits
def test_without_autocommit_writes_wait_for_the_caller_s_commit(store: Store, call: Call) -> None:
    with another_alias(store.alias, AUTOCOMMIT=False) as manual:
        other = DatabaseBackend(database=manual).store().at(store.names)
        call(other.kv.set, "k", 1)
        transaction.rollback(using=manual)
        assert call(other.kv.get, "k") is None
        call(other.kv.set, "k", 2)
        transaction.commit(using=manual)
        assert store.kv.get("k") == 2


@real_commits
def test_set_autocommit_false_counts_as_an_open_transaction(store: Store, call: Call) -> None:
    transaction.set_autocommit(False, using=store.alias)
    try:
        with pytest.raises(TransactionRefused):
            call(store.lock.acquire, "k")
    finally:
        transaction.rollback(using=store.alias)
        transaction.set_autocommit(True, using=store.alias)


@real_commits
def test_a_second_alias_of_the_database_locks_inside_a_transaction_on_the_first(postgres: Store, call: Call) -> None:
    store = postgres
    with another_alias(store.alias) as second:
        other = DatabaseBackend(database=second).store().at(store.names)
        with transaction.atomic(using=store.alias):
            Group.objects.using(store.alias).create(name="one")
            lock = call(other.lock.acquire, "k")
            assert lock is not None
            transaction.set_rollback(True, using=store.alias)
        assert store.lock.acquire("k") is None
        assert call(lock.release) is True


@real_commits
def test_a_transaction_on_another_database_is_no_hindrance(postgres: Store, call: Call) -> None:
    first = stores["default"].at(postgres.names)
    for inner, outer in ((first, postgres), (postgres, first)):
        with transaction.atomic(using=outer.alias):
            for operate in ALL_DURABLE.values():
                operate(inner, call)


def test_directly_in_a_test_case_it_is_lenient(store: Store, call: Call) -> None:
    assert connections[store.alias].in_atomic_block
    for operate in ALL_DURABLE.values():
        operate(store, call)
    with transaction.atomic(using=store.alias):
        for operate in ALL_DURABLE.values():
            with pytest.raises(TransactionRefused):
                operate(store, call)


class InATestCase(TestCase):
    """The same in Django's own form."""

    databases = "__all__"

    def test_it_is_lenient_directly_in_it(self) -> None:
        for store in (stores[alias] for alias in DATABASES):
            lock = store.lock.acquire("k")
            assert lock is not None
            with pytest.raises(TransactionRefused), transaction.atomic(using=store.alias):
                store.lock.acquire("other")
            with store.lock.hold("held") as held:
                assert not held.lost
            assert store.dedup.claim("e", 60).confirm() is True
            assert lock.release() is True

    def test_what_another_test_left_is_gone(self) -> None:
        for store in (stores[alias] for alias in DATABASES):
            assert store.lock.acquire("k") is not None
            assert store.dedup.claim("e", 60).state == "new"


# -- conflicts that cannot be hidden ----------------------------------------------------------------------------------


@real_commits
def test_a_deadlock_of_callers_is_a_transaction_conflict(postgres: Store) -> None:
    store, alias = postgres, postgres.alias
    turn, conflicts = threading.Barrier(2, timeout=20), list[TransactionConflict]()

    def work(first: str, second: str) -> None:
        try:
            with transaction.atomic(using=alias):
                with connections[alias].cursor() as cursor:
                    cursor.execute("set local deadlock_timeout = '50ms'")
                store.kv.set(first, 1)
                turn.wait()
                store.kv.set(second, 1)
        except TransactionConflict as error:
            conflicts.append(error)

    at_once(lambda: work("a", "b"), lambda: work("b", "a"))
    assert len(conflicts) == 1
    assert "retry all of it" in str(conflicts[0])
    assert (store.kv.get("a"), store.kv.get("b")) == (1, 1)


@real_commits
def test_a_serialization_failure_in_the_caller_s_transaction_is_a_conflict(
    alias: str, store: Store, call: Call
) -> None:
    if connections[alias].vendor == "sqlite":
        changes: dict[str, Any] = {"transaction_mode": "DEFERRED"}
    else:
        from psycopg import IsolationLevel

        changes = {"isolation_level": IsolationLevel.REPEATABLE_READ}
    with another_alias(alias, OPTIONS=changes) as name:
        strict = DatabaseBackend(database=name).store().at(store.names)
        with pytest.raises(TransactionConflict, match=f"the database '{name}' gave up"), transaction.atomic(using=name):
            assert call(strict.kv.get, "k") is None
            at_once(lambda: store.kv.set("k", "by another"))
            call(strict.kv.set, "k", "mine")
        assert call(strict.kv.get, "k") == "by another"
        with transaction.atomic(using=name):  # the connection is fit for the retry
            call(strict.kv.set, "k", "mine")
    assert store.kv.get("k") == "mine"


@real_commits
def test_outside_a_transaction_a_serialization_failure_is_never_seen(postgres: Store) -> None:
    from psycopg import IsolationLevel

    store = postgres
    with another_alias(store.alias, OPTIONS={"isolation_level": IsolationLevel.SERIALIZABLE}) as name:
        strict = DatabaseBackend(database=name).store().at(store.names)
        won: list[int] = []

        def work() -> None:
            for number in range(40):
                strict.kv.set("shared", number)
                if not strict.dedup.seen(f"event {number}", 60):
                    won.append(number)

        at_once(*[work] * 4)
    assert sorted(won) == list(range(40))


# -- views ------------------------------------------------------------------------------------------------------------


def webhook(request: HttpRequest) -> HttpResponse:
    """Record an event once, and fail when told to."""
    store = stores[request.GET["alias"]].namespace("webhook")
    repeat = store.dedup.seen(request.GET["event"], 60)
    if not repeat:
        Group.objects.using(store.alias).create(name=request.GET["event"])
    if "fail" in request.GET:
        raise ZeroDivisionError
    return HttpResponse("repeat" if repeat else "first")


def inside(request: HttpRequest) -> HttpResponse:
    with stores[request.GET["alias"]].lock.hold("view"):
        return HttpResponse("locked")


@transaction.non_atomic_requests(using="default")
@transaction.non_atomic_requests(using="postgres")
def outside(request: HttpRequest) -> HttpResponse:
    return inside(request)


urlpatterns = [path("webhook", webhook), path("inside", inside), path("outside", outside)]


@pytest.fixture
def atomic_requests(alias: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setitem(connections[alias].settings_dict, "ATOMIC_REQUESTS", True)
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[]):
        yield Client()


@real_commits
def test_with_atomic_requests_an_event_counts_only_if_its_view_succeeded(
    atomic_requests: Client, alias: str, store: Store
) -> None:
    ask = {"alias": alias, "event": "e1"}
    with pytest.raises(ZeroDivisionError):
        atomic_requests.get("/webhook", ask | {"fail": ""})
    assert groups(store) == []
    assert atomic_requests.get("/webhook", ask).content == b"first"
    assert atomic_requests.get("/webhook", ask).content == b"repeat"
    assert groups(store) == ["e1"]


@real_commits
def test_with_atomic_requests_a_lock_is_refused_but_in_a_non_atomic_view(atomic_requests: Client, alias: str) -> None:
    with pytest.raises(TransactionRefused, match="non_atomic_requests"):
        atomic_requests.get("/inside", {"alias": alias})
    assert atomic_requests.get("/outside", {"alias": alias}).content == b"locked"


# -- the event loop ---------------------------------------------------------------------------------------------------


@real_commits
def test_many_coroutines_at_once(store: Store) -> None:
    async def main() -> dict[str, list[Any]]:
        try:
            return {
                "add": await asyncio.gather(*(store.kv.aadd("k", number) for number in range(30))),
                "seen": await asyncio.gather(*(store.dedup.aseen("e", 60) for _ in range(30))),
                "locks": await asyncio.gather(*(store.lock.aacquire("k") for _ in range(30))),
                "consume": await asyncio.gather(*(store.kv.aconsume("k") for _ in range(30))),
                "blocking": await asyncio.gather(*(sync_to_async(store.kv.add)("k", 0) for _ in range(30))),
            }
        finally:
            await sync_to_async(connections.close_all)()

    results = asyncio.run(main())
    assert results["add"].count(True) == 1
    assert results["seen"].count(False) == 1
    assert [lock is None for lock in results["locks"]].count(False) == 1
    assert [value is None for value in results["consume"]].count(False) == 1
    assert results["blocking"].count(True) == 1


@real_commits
def test_a_transaction_in_a_thread_does_not_hold_up_the_event_loop_s_checks(store: Store) -> None:
    """What is refused depends on the transaction of the thread that would do it, not on another's."""

    def in_a_transaction() -> None:
        with transaction.atomic(using=store.alias), pytest.raises(TransactionRefused):
            store.lock.acquire("k")

    async def main() -> bool:
        try:
            await sync_to_async(in_a_transaction)()
            return await store.lock.aacquire("k") is not None
        finally:
            await sync_to_async(connections.close_all)()

    assert asyncio.run(main())
