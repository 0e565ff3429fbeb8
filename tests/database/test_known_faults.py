"""Faults that users of other stores have met, and that no other test here would show.

Most look through the public API alone; what a wait for another's transaction does is in test_waiting.
"""

from __future__ import annotations

import asyncio
import datetime
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.utils import timezone

from django_statestore import Store, stores
from django_statestore.contracts.artifact import SpooledArtifact
from django_statestore.exceptions import InvalidKey, InvalidKeyType, InvalidTTL, StateStoreError, ValueNotSerializable
from django_statestore.services.purge import purge
from django_statestore.testing import age
from tests.calling import Call
from tests.database.clocks import clock_at
from tests.processes import Processes
from tests.unit.spools import at_once

real_commits = pytest.mark.django_db(databases="__all__", transaction=True)

# -- what is refused, by every operation of every facet ---------------------------------------------------------------

Try = Callable[[Store, Call, Any], object]

WITH_KEY: dict[str, Try] = {
    "kv.get": lambda store, call, key: call(store.kv.get, key),
    "kv.set": lambda store, call, key: call(store.kv.set, key, 1),
    "kv.add": lambda store, call, key: call(store.kv.add, key, 1),
    "kv.consume": lambda store, call, key: call(store.kv.consume, key),
    "kv.delete": lambda store, call, key: call(store.kv.delete, key),
    "kv.touch": lambda store, call, key: call(store.kv.touch, key, 60),
    "list.append": lambda store, call, key: call(store.list.append, key, 1),
    "list.range": lambda store, call, key: call(store.list.range, key),
    "list.last": lambda store, call, key: call(store.list.last, key, 1),
    "list.length": lambda store, call, key: call(store.list.length, key),
    "list.trim": lambda store, call, key: call(store.list.trim, key, 1),
    "list.delete": lambda store, call, key: call(store.list.delete, key),
    "lock.acquire": lambda store, call, key: call(store.lock.acquire, key),
    "lock.release": lambda store, call, key: call(store.lock.release, key, "token"),
    "lock.extend": lambda store, call, key: call(store.lock.extend, key, "token", 60),
    "lock.force_release": lambda store, call, key: call(store.lock.force_release, key),
    "lock.hold": lambda store, call, key: store.lock.hold(key).__enter__(),
    "dedup.seen": lambda store, call, key: call(store.dedup.seen, key, 60),
    "dedup.claim": lambda store, call, key: call(store.dedup.claim, key, 60),
    "dedup.confirm": lambda store, call, key: call(store.dedup.confirm, key, "token"),
    "dedup.forget": lambda store, call, key: call(store.dedup.forget, key, "token"),
    "dedup.once": lambda store, call, key: store.dedup.once(key, 60).__enter__(),
    "queue.enqueue": lambda store, call, key: call(store.queue.enqueue, key, 1),
    "queue.dequeue": lambda store, call, key: call(store.queue.dequeue, key),
    "queue.peek": lambda store, call, key: call(store.queue.peek, key),
    "queue.depth": lambda store, call, key: call(store.queue.depth, key),
    "queue.delete": lambda store, call, key: call(store.queue.delete, key),
    "queue.take": lambda store, call, key: call(store.queue.take, key),
    "queue.ack": lambda store, call, key: call(store.queue.ack, key, "token"),
    "queue.release": lambda store, call, key: call(store.queue.release, key, "token"),
    "handoff.set": lambda store, call, key: call(store.handoff.set, key, {}, 60),
    "handoff.get": lambda store, call, key: call(store.handoff.get, key),
    "handoff.get_and_delete": lambda store, call, key: call(store.handoff.get_and_delete, key),
    "handoff.delete": lambda store, call, key: call(store.handoff.delete, key),
    "spool.write": lambda store, call, key: call(store.spool.write, key, "text"),
    "spool.read": lambda store, call, key: call(store.spool.read, key),
    "spool.delete": lambda store, call, key: call(store.spool.delete, key),
}
BAD_KEYS: list[Any] = ["", "a\0", "\ud800", "k" * 1025, "\u00e9" * 513, b"k", 1, 0, True, None, ("k",)]

WITH_DURATION: dict[str, Try] = {
    "kv.set": lambda store, call, ttl: call(store.kv.set, "k", 1, ttl),
    "kv.add": lambda store, call, ttl: call(store.kv.add, "k", 1, ttl),
    "kv.touch": lambda store, call, ttl: call(store.kv.touch, "k", ttl),
    "list.append": lambda store, call, ttl: call(store.list.append, "k", 1, None, ttl),
    "lock.acquire": lambda store, call, ttl: call(store.lock.acquire, "k", ttl),
    "lock.extend": lambda store, call, ttl: call(store.lock.extend, "k", "token", ttl),
    "lock.hold": lambda store, call, ttl: store.lock.hold("k", ttl).__enter__(),
    "dedup.seen": lambda store, call, ttl: call(store.dedup.seen, "k", ttl),
    "dedup.claim": lambda store, call, ttl: call(store.dedup.claim, "k", ttl),
    "dedup.claim lease": lambda store, call, ttl: call(store.dedup.claim, "k", 60, ttl),
    "dedup.once": lambda store, call, ttl: store.dedup.once("k", ttl).__enter__(),
    "dedup.once lease": lambda store, call, ttl: store.dedup.once("k", 60, ttl).__enter__(),
    "queue.enqueue": lambda store, call, ttl: call(store.queue.enqueue, "k", 1, ttl=ttl),
    "queue.take": lambda store, call, ttl: call(store.queue.take, "k", ttl),
    "handoff.set": lambda store, call, ttl: call(store.handoff.set, "k", {}, ttl),
    "handoff.issue": lambda store, call, ttl: call(store.handoff.issue, {}, ttl),
}
BAD_DURATIONS: list[Any] = [
    0, -1, -0.4, 10**16, 1e300, float("inf"), float("-inf"), float("nan"), True, False, "60", b"60",
    datetime.timedelta(0), datetime.timedelta(seconds=-1), datetime.timedelta.max,
]  # fmt: skip


def sizes(store: Store) -> list[int]:
    facets = (store.kv, store.list, store.lock, store.dedup, store.queue, store.handoff, store.spool)
    return [facet.size() for facet in facets]


def test_every_operation_refuses_what_is_no_key(store: Store, call: Call) -> None:
    for name, operate in WITH_KEY.items():
        for key in BAD_KEYS:
            with pytest.raises(InvalidKey if isinstance(key, str) else InvalidKeyType):
                pytest.fail(f"{name} took {key!a}: {operate(store, call, key)!r}")
    assert sizes(store) == [0] * 7


def test_every_operation_refuses_what_is_no_duration(store: Store, call: Call) -> None:
    for name, operate in WITH_DURATION.items():
        for duration in BAD_DURATIONS:
            with pytest.raises(InvalidTTL):
                pytest.fail(f"{name} took {duration!r}: {operate(store, call, duration)!r}")
    assert sizes(store) == [0] * 7


def test_a_refusal_can_always_be_written_to_a_log(store: Store, call: Call) -> None:
    """Whatever was refused: also where the path to it has what no encoder takes."""
    odd = {"\ud800": [{"\0\n\x1b": object()}]}
    refusals: list[Callable[[], object]] = [
        lambda: call(store.kv.set, "k", odd),
        lambda: call(store.handoff.set, "k", odd, 60),
        lambda: call(store.kv.get, "\udfff"),
        lambda: call(store.spool.write, "k", "\udfff"),
        lambda: store.namespace("\udfff"),
    ]
    for refused in refusals:
        with pytest.raises(StateStoreError) as caught:
            refused()
        for text in (str(caught.value), repr(caught.value)):
            assert text.encode()
            assert text.isprintable()
    with pytest.raises(ValueNotSerializable):
        call(store.kv.set, "k", odd)


# -- the longest names ------------------------------------------------------------------------------------------------

FIRST: dict[str, Try] = {
    "kv": lambda store, call, key: call(store.kv.add, key, 1),
    "list": lambda store, call, key: call(store.list.append, key, 1) == 1,
    "lock": lambda store, call, key: call(store.lock.acquire, key) is not None,
    "dedup": lambda store, call, key: not call(store.dedup.seen, key, 60),
    "queue": lambda store, call, key: call(store.queue.enqueue, key, 1) == 1,
    "handoff": lambda store, call, key: (
        call(store.handoff.get, key) is None and call(store.handoff.set, key, {}, 60) is None
    ),
    "spool": lambda store, call, key: call(store.spool.read, key) is None and bool(call(store.spool.write, key, "")),
}
"""How each facet tells whether a key is met for the first time."""


@pytest.mark.parametrize("facet", FIRST)
def test_the_longest_namespace_and_the_longest_key_go_together(store: Store, call: Call, facet: str) -> None:
    """Text that does not compress, and keys that differ at their very end alone."""
    here = stores[store.alias].namespace(secrets.token_hex(512))
    long = secrets.token_hex(511)
    keys = [long + "aa", long + "ab", long + "a", "\U0001f600" * 256]
    try:
        assert [FIRST[facet](here, call, key) for key in keys] == [True] * 4
        assert [FIRST[facet](here, call, key) for key in keys] == [False] * 4
        assert getattr(here, facet).size() == 4
        if facet != "handoff":
            assert [item.key for item in call(getattr(here, facet).scan).items] == sorted(keys)
    finally:
        getattr(here, facet).clear()


# -- time -------------------------------------------------------------------------------------------------------------


def put_all(store: Store, call: Call) -> None:
    """Give everything that can end five seconds to live."""
    call(store.list.append, "k", "lasting")
    call(store.list.append, "k", "passing", ttl=5)
    call(store.queue.enqueue, "k", "passing", ttl=5)
    call(store.queue.enqueue, "taken", "taken")
    call(store.queue.take, "taken", lease=5)
    call(store.queue.enqueue, "delayed", "delayed")
    item = call(store.queue.take, "delayed")
    assert item is not None
    call(item.release, 5)
    call(store.handoff.set, "k", {}, 5)


def what_is_there(store: Store, call: Call) -> list[Any]:
    return [
        call(store.list.range, "k"), call(store.list.last, "k", 9), call(store.list.length, "k"), call(store.list.size),
        call(store.queue.peek, "k"), call(store.queue.depth, "k"),
        call(store.queue.peek, "taken"), call(store.queue.peek, "delayed"), call(store.queue.size),
        call(store.handoff.get, "k"), call(store.handoff.size),
    ]  # fmt: skip


BEFORE = [["lasting", "passing"], ["lasting", "passing"], 2, 1, "passing", 1, None, None, 3, {}, 1]
AFTER = [[], [], 0, 0, None, 0, "taken", "delayed", 2, None, 0]


def test_at_the_very_instant_of_its_end_it_is_over(store: Store, call: Call) -> None:
    for milliseconds, expected in ((4999, BEFORE), (5000, AFTER)):
        here = store.namespace(str(milliseconds))
        with clock_at(store, 0):
            put_all(here, call)
        with clock_at(store, milliseconds):
            assert what_is_there(here, call) == expected


def test_when_its_whole_time_has_passed_it_is_over(store: Store, call: Call) -> None:
    """The same through the public API: no wait, and not a millisecond more than its time."""
    put_all(store, call)
    assert what_is_there(store, call) == BEFORE
    age(store, 5)
    assert what_is_there(store, call) == AFTER
    assert call(store.list.append, "k", "new") == 1
    assert call(store.queue.enqueue, "k", "new", max_size=1, on_full="reject") == 1
    assert call(store.handoff.get_and_delete, "k") is None
    assert call(store.queue.dequeue, "taken") == "taken"


@pytest.mark.parametrize("ahead", [60, -60], ids=["ahead", "behind"])
def test_the_clock_of_the_application_decides_nothing(
    store: Store, call: Call, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, now = time.time, timezone.now

    def shift() -> None:
        monkeypatch.setattr(time, "time", lambda: real() + ahead)
        monkeypatch.setattr(timezone, "now", lambda: now() + datetime.timedelta(seconds=ahead))

    def live() -> list[bool]:
        return [
            call(store.kv.get, "k") == 1, call(store.list.length, "k") == 1, call(store.lock.acquire, "k") is None,
            call(store.dedup.seen, "k", 30), call(store.queue.depth, "k") == 1, call(store.handoff.get, "k") == {},
        ]  # fmt: skip

    def put() -> None:
        call(store.kv.set, "k", 1, ttl=30)
        call(store.list.append, "k", 1, ttl=30)
        call(store.lock.acquire, "k", ttl=30)
        call(store.dedup.seen, "k", 30)
        call(store.queue.enqueue, "k", 1, ttl=30)
        call(store.handoff.set, "k", {}, 30)

    put()  # by a process whose clock is right, judged by one whose clock is wrong
    shift()
    assert live() == [True] * 6
    age(store, 31)
    call(store.list.delete, "k")
    put()  # and the other way round
    monkeypatch.undo()
    assert live() == [True] * 6
    age(store, 31)
    assert live()[:2] == [False] * 2


def test_after_its_end_and_a_purge_nothing_is_left_of_anything(store: Store, call: Call) -> None:
    put_all(store, call)
    for key in ("taken", "delayed"):
        call(store.queue.delete, key)
    call(store.kv.set, "k", 1, ttl=5)
    for key in ("released", "expired"):
        lock = call(store.lock.acquire, key)
        assert lock is not None
        if key == "released":
            call(lock.release)
    call(store.dedup.seen, "seen", 5)
    for key in ("confirmed", "forgotten", "lapsed"):
        claim = call(store.dedup.claim, key, 60)
        if key != "lapsed":
            call(claim.confirm if key == "confirmed" else claim.forget)
    call(store.spool.write, "k", "one")
    call(store.spool.write, "k", "two")
    call(store.spool.delete, "k")
    age(store, datetime.timedelta(days=2))
    purge(store.alias)
    assert left(store) == {}


def left(store: Store) -> dict[str, int]:
    """Count the rows of the namespace in every table, children that lost their parent among them."""
    found = {}
    with connections[store.alias].cursor() as cursor:
        for table in ("kv", "list", "lock", "dedup", "queue", "handoff", "spool_entry", "spool_blob"):
            cursor.execute(f"select count(*) from statestore_{table} where namespace = %s", [store.names[0]])
            found[table] = cursor.fetchone()[0]
        for child, parent, name in (
            ("list_item", "list", "list_id"),
            ("queue_item", "queue", "queue_id"),
            ("spool_chunk", "spool_blob", "blob_id"),
        ):
            cursor.execute(
                f"select count(*) from statestore_{child} where {name} not in (select id from statestore_{parent})"
            )
            found[f"{child} without {parent}"] = cursor.fetchone()[0]
    return {name: count for name, count in found.items() if count}


# -- lines ------------------------------------------------------------------------------------------------------------


def test_only_a_line_feed_ends_a_line_whoever_asks(store: Store, call: Call) -> None:
    first, second = "a\fb\u2028c\u0085d\x1ce\r\v\u2029\x1d\x1e", "f"
    reader = call(store.spool.write, "c", f"{first}\n{second}")
    artifact = SpooledArtifact(reader)
    assert reader.line_count == 2
    assert [call(reader.line, index) for index in range(3)] == [first, second, None]
    assert call(reader.lines, 1) == call(artifact.tail, 1) == call(artifact.cat, 1) == [second]
    assert call(artifact.head, 1) == call(artifact.grep, "e\r") == call(artifact.grep, "\u2028c") == [first]
    assert call(artifact.grep, "f") == [second]


# -- one object in many hands -----------------------------------------------------------------------------------------


@real_commits
def test_a_block_of_one_thread_does_not_settle_the_claim_of_another(store: Store) -> None:
    """Both use one object of `once`: the second finds it pending, and fails; the first has handled the event."""
    once, entered, left_again = store.dedup.once("e", 600), threading.Event(), threading.Event()

    def first() -> None:
        with once as claim:
            assert claim
            entered.set()
            assert left_again.wait(20)

    def second() -> None:
        assert entered.wait(20)
        with pytest.raises(ZeroDivisionError), once as claim:
            assert claim.state == "pending"
            raise ZeroDivisionError
        assert store.dedup.claim("e", 600).state == "pending"
        left_again.set()

    at_once(first, second)
    assert store.dedup.claim("e", 600).state == "done"


@real_commits
def test_a_block_of_one_coroutine_does_not_settle_the_claim_of_another(store: Store) -> None:
    async def main() -> None:
        once, entered, left_again = store.dedup.once("e", 600), asyncio.Event(), asyncio.Event()

        async def first() -> None:
            async with once as claim:
                assert claim
                entered.set()
                await left_again.wait()

        async def second() -> None:
            await entered.wait()
            with pytest.raises(ZeroDivisionError):
                async with once as claim:
                    assert claim.state == "pending"
                    raise ZeroDivisionError
            assert (await store.dedup.aclaim("e", 600)).state == "pending"
            left_again.set()

        await asyncio.gather(first(), second())
        await sync_to_async(connections.close_all)()

    asyncio.run(main())
    assert store.dedup.claim("e", 600).state == "done"


@real_commits
def test_a_capped_list_that_many_append_to_ends_as_a_whole(store: Store) -> None:
    def append() -> None:
        for number in range(10):
            assert store.list.append("L", number, max_len=10, ttl=60) <= 10

    at_once(*[append] * 4)
    assert store.list.append("L", "last") == 11
    age(store, 59)
    assert store.list.length("L") == 11
    age(store, 1)
    assert store.list.range("L") == []


# -- with transactions of the caller's --------------------------------------------------------------------------------


@real_commits
def test_with_the_lock_outside_and_the_transaction_inside_nothing_is_lost(store: Store) -> None:
    """The next holder begins after the commit, so it reads what this one wrote."""
    with transaction.atomic(using=store.alias):
        Group.objects.using(store.alias).create(name="0")

    def work() -> None:
        for _ in range(5):
            with store.lock.hold("k", wait=60), transaction.atomic(using=store.alias):
                group = Group.objects.using(store.alias).get()
                group.name = str(int(group.name) + 1)
                group.save(using=store.alias)

    at_once(*[work] * 4)
    assert Group.objects.using(store.alias).get().name == "20"


# -- in other processes -----------------------------------------------------------------------------------------------


def settle(alias: str, names: tuple[str, ...], lock: str, claim: str, item: str) -> list[bool]:
    store = stores[alias].at(names)
    return [
        store.lock.extend("k", lock, 60), store.lock.release("k", lock),
        store.dedup.confirm("k", claim), store.queue.ack("k", item),
    ]  # fmt: skip


@real_commits
def test_a_token_that_went_to_another_process_is_good_there(store: Store, processes: Processes) -> None:
    """As in the arguments of a Celery task: taken in a web process, given back in a worker."""
    lock, claim = store.lock.acquire("k"), store.dedup.claim("k", 600)
    store.queue.enqueue("k", 1)
    item = store.queue.take("k")
    assert lock is not None
    assert item is not None
    assert claim.token is not None
    tokens = (lock.token, claim.token, item.token)
    assert processes.start(settle, store.alias, store.names, *tokens).result() == [True] * 4
    assert lock.release() is False
    assert store.lock.acquire("k") is not None
    assert (store.dedup.claim("k", 600).state, store.queue.depth("k")) == ("done", 0)
