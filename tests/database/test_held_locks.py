"""lock.hold on a database: connections, transactions, processes, and what goes wrong meanwhile."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

from django_statestore import Store, stores
from django_statestore.contracts.hold import HeldLock, Hold
from django_statestore.exceptions import LockLost, TransactionRefused
from django_statestore.keys import encode_namespace
from django_statestore.models import LockEntry
from django_statestore.renewer import renewer
from django_statestore.testing import age
from tests import child
from tests.calling import Call
from tests.processes import Processes
from tests.unit.spools import at_once

Body = Callable[[HeldLock], Any]

real_commits = pytest.mark.django_db(databases="__all__", transaction=True)


def hold(call: Call, block: Hold, body: Body) -> Any:
    """Run a blocking body in ``with`` or ``async with``."""
    if not call.asynchronous:
        with block as held:
            return body(held)

    async def main() -> Any:
        async with block as held:
            return await sync_to_async(body)(held)

    return async_to_sync(main)()


def expiry(store: Store) -> Any:
    rows = LockEntry.objects.using(store.alias).filter(namespace=encode_namespace(store.names))
    return rows.values_list("expires_at", flat=True).get(key="k")


def is_free(store: Store) -> bool:
    lock = store.lock.acquire("k")
    return lock is not None and lock.release()


def renew_now(held: HeldLock) -> None:
    """Make the renewal of a lock due, as if a third of its ttl had passed."""
    held.renewed_at = time.monotonic() - held.seconds / 2
    held.tried_at = 0
    changed = renewer._workers[held.group[0]]._changed
    with changed:
        changed.notify()


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.005)


@real_commits
def test_a_body_keeps_its_own_exception_where_the_release_fails_too(store: Store, call: Call) -> None:
    with ExitStack() as left_open:

        def body(held: HeldLock) -> None:
            left_open.enter_context(transaction.atomic(using=store.alias))
            left_open.callback(transaction.set_rollback, True, using=store.alias)
            raise ValueError("of the body")

        with pytest.raises(ValueError, match="of the body"):
            hold(call, store.lock.hold("k"), body)


@real_commits
def test_a_release_that_fails_is_told(store: Store, call: Call) -> None:
    with ExitStack() as left_open:

        def body(held: HeldLock) -> None:
            left_open.enter_context(transaction.atomic(using=store.alias))

        with pytest.raises(TransactionRefused):
            hold(call, store.lock.hold("k"), body)


@real_commits
def test_the_renewing_thread_tells_the_body_of_a_loss(store: Store, call: Call) -> None:
    def body(held: HeldLock) -> None:
        age(store, 31)
        assert store.lock.acquire("k") is not None
        assert not held.lost  # nobody has asked yet
        renew_now(held)
        eventually(lambda: held.lost)
        assert held.expires_in == 0
        held.check()

    with pytest.raises(LockLost, match="'k' was lost: it expired or was taken over"):
        hold(call, store.lock.hold("k"), body)
    assert not is_free(store)


@real_commits
def test_a_lock_is_renewed_at_a_third_of_its_ttl(store: Store, call: Call) -> None:
    def body(held: HeldLock) -> None:
        before = expiry(store)
        renew_now(held)
        eventually(lambda: expiry(store) > before)
        eventually(lambda: held.expires_in > 29)
        assert not held.lost

    hold(call, store.lock.hold("k"), body)
    assert is_free(store)


@real_commits
def test_a_body_may_outlast_the_ttl(store: Store) -> None:
    with store.lock.hold("k", ttl=0.5) as held:
        time.sleep(0.65)
        assert store.lock.acquire("k") is None
        held.check()


@real_commits
def test_many_locks_are_renewed_together_and_each_for_its_own_ttl(store: Store) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(store.lock.hold("k" if not ttl else f"k{ttl}", 30 + ttl)) for ttl in range(3)]
        for each in held:
            renew_now(each)
        eventually(lambda: all(each.expires_in > each.seconds - 1 for each in held))
    assert is_free(store)


@real_commits
def test_a_renewal_that_fails_is_tried_again_and_is_no_loss_yet(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    backend: Any = store.backend
    real, failures = backend._extend, [OSError("the network is down")] * 2

    def flaky(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return real(*arguments)

    monkeypatch.setattr(backend, "_extend", flaky)
    with store.lock.hold("k") as held:
        for left in (1, 0):
            renew_now(held)
            eventually(lambda left=left: len(failures) == left)  # type: ignore[misc]
            assert not held.lost
        renew_now(held)
        eventually(lambda: held.expires_in > 29)
    assert "could not renew 1 lease(s): OSError" in caplog.text
    assert held.token not in caplog.text


@real_commits
def test_nothing_is_renewed_after_the_block_and_the_thread_lets_its_connection_go(store: Store) -> None:
    before = threading.active_count()
    with store.lock.hold("k") as held:
        renew_now(held)
        eventually(lambda: held.expires_in > 29)
    assert not renewer.leases
    eventually(lambda: others_connected(store) == 0)
    assert threading.active_count() <= before + 1


def others_connected(store: Store) -> int:
    """Count the connections of other threads to the database; SQLite has no such count."""
    if connections[store.alias].vendor == "sqlite":
        return 0
    with connections[store.alias].cursor() as cursor:
        cursor.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            " and backend_type = 'client backend'"
        )
        return int(cursor.fetchone()[0])


@real_commits
def test_one_block_object_serves_many_threads(store: Store) -> None:
    block, inside, most = store.lock.hold("k", wait=60), [], []

    def work() -> None:
        for _ in range(5):
            with block as held:
                inside.append(held.fence)
                most.append(len(inside))
                inside.remove(held.fence)

    at_once(*[work] * 4)
    assert most == [1] * 20


@real_commits
def test_async_blocks_take_turns_without_blocking_the_event_loop(store: Store) -> None:
    order: list[str] = []

    async def turn(name: str) -> None:
        async with store.lock.hold("k", wait=60):
            order.append(name)
            await asyncio.sleep(0.01)
            order.append(name)

    async def tick(ticks: list[float]) -> None:
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.001)

    async def main() -> list[float]:
        ticks: list[float] = []
        ticking = asyncio.create_task(tick(ticks))
        await asyncio.gather(*(turn(name) for name in "abcdef"))
        ticking.cancel()
        await sync_to_async(connections.close_all)()
        return ticks

    ticks = asyncio.run(main())
    assert sorted(order[::2]) == list("abcdef")
    assert order[::2] == order[1::2]
    assert len(ticks) > 20


def hold_until_told(alias: str, names: tuple[str, ...]) -> str:
    try:
        with stores[alias].at(names).lock.hold("k"):
            child.tell("inside")
            child.wait()
    except LockLost:
        return "lost"
    return "kept"


@real_commits
def test_a_process_that_was_frozen_is_told_and_does_not_disturb_its_successor(
    store: Store, processes: Processes
) -> None:
    holder = processes.start(hold_until_told, store.alias, store.names)
    holder.expect("inside")
    assert store.lock.acquire("k") is None
    holder.pause()
    age(store, 31)
    successor = store.lock.acquire("k")
    assert successor is not None
    holder.resume()
    holder.go()
    assert holder.result() == "lost"
    assert store.lock.acquire("k") is None
    assert successor.extend(30) is not None


def fork_while_holding(alias: str, names: tuple[str, ...]) -> int:
    with stores[alias].at(names).lock.hold("k") as held:
        renew_now(held)
        eventually(lambda: held.expires_in > 29)
        pid = os.fork()
        if not pid:
            os._exit(len(renewer.leases) + len(renewer._workers))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@real_commits
def test_a_forked_process_renews_nothing_of_its_parent(store: Store, processes: Processes) -> None:
    assert processes.start(fork_while_holding, store.alias, store.names).result() == 0


def cancelled_in(store: Store, where: Callable[[Store, asyncio.Event], Any]) -> None:
    async def main() -> None:
        reached = asyncio.Event()
        task = asyncio.create_task(where(store, reached))
        await reached.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sync_to_async(connections.close_all)()

    asyncio.run(main())


@real_commits
def test_a_cancelled_body_gives_its_lock_back(store: Store) -> None:
    async def holds(store: Store, reached: asyncio.Event) -> None:
        async with store.lock.hold("k"):
            reached.set()
            await asyncio.sleep(60)

    cancelled_in(store, holds)
    assert is_free(store)
    assert not renewer.leases


@real_commits
def test_a_cancelled_wait_takes_no_lock(store: Store) -> None:
    async def waits(store: Store, reached: asyncio.Event) -> None:
        reached.set()
        async with store.lock.hold("k", wait=60):
            pytest.fail("the body ran")

    other = store.lock.acquire("k")
    assert other is not None
    cancelled_in(store, waits)
    assert store.lock.acquire("k") is None
    assert other.release() is True
    assert is_free(store)


@real_commits
def test_a_lock_granted_after_the_cancellation_is_given_back(store: Store) -> None:
    """The statement is on its way, waiting for another transaction, when the task is cancelled."""
    entry = store.lock.entry("k")
    granted: list[int] = []
    backend: Any = store.backend
    real = backend.row

    def spy(template: str, parameters: Any) -> Any:
        row = real(template, parameters)
        if row and "insert into statestore_lock" in template:
            granted.append(row[0])
        return row

    async def main() -> None:
        async def holds() -> None:
            async with store.lock.hold("k", wait=60):
                pytest.fail("the body ran")

        task = asyncio.create_task(holds())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.sleep(0.05)
        await sync_to_async(let_go.set, thread_sensitive=False)()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sync_to_async(connections.close_all)()  # and what was sent before has ended

    let_go, taken = threading.Event(), threading.Event()

    def in_the_way() -> None:
        with transaction.atomic(using=store.alias):
            LockEntry.objects.using(store.alias).create(
                id=entry.digest, namespace=entry.namespace, key="k", token=b"x" * 32, fence=1, expires_at=far_future()
            )
            taken.set()
            assert let_go.wait(20)
            transaction.set_rollback(True, using=store.alias)

    thread = threading.Thread(target=lambda: at_once(in_the_way))
    thread.start()
    assert taken.wait(20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "row", spy)
        asyncio.run(main())
    thread.join()
    assert len(granted) == 1, "the lock was not granted at all: the test has missed its moment"
    assert is_free(store)


def far_future() -> Any:
    from datetime import UTC, datetime

    return datetime(2100, 1, 1, tzinfo=UTC)
