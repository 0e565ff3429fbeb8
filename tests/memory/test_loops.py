"""Event loops: an operation is done on the spot, and any number of loops may share a store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import chain
from typing import Any

import pytest

from django_statestore import Store
from tests.memory.test_threads import counted
from tests.memory.threads import THREADS, contend

OPERATIONS: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "kv.aset": lambda store: store.kv.aset("k", 1, ttl=5),
    "kv.aget": lambda store: store.kv.aget("k"),
    "kv.aconsume": lambda store: store.kv.aconsume("k"),
    "kv.asize": lambda store: store.kv.asize(),
    "kv.ascan": lambda store: store.kv.ascan(),
    "kv.aclear": lambda store: store.kv.aclear(),
    "list.aappend": lambda store: store.list.aappend("k", 1, max_len=5),
    "list.arange": lambda store: store.list.arange("k"),
    "lock.aacquire": lambda store: store.lock.aacquire("k"),
    "dedup.aseen": lambda store: store.dedup.aseen("k", 5),
    "dedup.aclaim": lambda store: store.dedup.aclaim("other", 5),
    "queue.aenqueue": lambda store: store.queue.aenqueue("k", 1),
    "queue.atake": lambda store: store.queue.atake("k"),
    "handoff.aissue": lambda store: store.handoff.aissue({}, 5),
    "spool.awrite": lambda store: store.spool.awrite("k", b"a\nb" * 100_000),
    "spool.aread": lambda store: store.spool.aread("k"),
    "durable.aclaim": lambda store: store.durable.aclaim("k"),
    "durable.asave": lambda store: store.durable.asave("other", counted(1)),
    "durable.aload": lambda store: store.durable.aload("k"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_done_on_the_spot(here: Store, name: str) -> None:
    """It runs to its end though there is no event loop at all: it waits for nothing and goes to no other thread."""
    with pytest.raises(StopIteration):
        OPERATIONS[name](here).send(None)


def test_a_reader_reads_on_the_spot(here: Store) -> None:
    reader = here.spool.write("k", b"first\nsecond\n" * 100_000)
    with pytest.raises(StopIteration) as line:
        reader.aline(150_001).send(None)
    assert line.value.value == "second"


def test_loops_in_many_threads_share_a_store(here: Store) -> None:
    async def one(number: int) -> list[int]:
        got = []
        await here.queue.aenqueue("q", number)
        got += [number for _ in range(5) if await here.kv.aadd(f"k{number % 3}-{_}", number)]
        async with here.lock.hold("lock", wait=30):
            before = await here.kv.aget("count", 0)
            await asyncio.sleep(0)
            await here.kv.aset("count", before + 1)
        return got

    async def many(thread: int) -> list[list[int]]:
        return await asyncio.gather(*(one(thread * 10 + number) for number in range(10)))

    won = contend(lambda thread: asyncio.run(many(thread)))
    assert here.kv.get("count") == THREADS * 10
    assert len(list(chain.from_iterable(chain.from_iterable(won)))) == 15
    assert Counter(here.queue.dequeue("q") for _ in range(THREADS * 10)) == Counter(range(THREADS * 10))


def test_a_lock_taken_in_one_loop_is_given_back_in_another(here: Store) -> None:
    lock = asyncio.run(here.lock.aacquire("k"))
    assert lock is not None
    assert asyncio.run(here.lock.aacquire("k")) is None
    assert asyncio.run(lock.arelease()) is True
    assert here.lock.acquire("k") is not None


def test_a_task_that_waits_for_a_lock_lets_its_holder_go_on(here: Store) -> None:
    async def both() -> list[str]:
        order = []

        async def holder() -> None:
            async with here.lock.hold("k"):
                order.append("in")
                await asyncio.sleep(0.05)
                order.append("out")

        async def waiter() -> None:
            await asyncio.sleep(0.01)
            async with here.lock.hold("k", wait=10):
                order.append("next")

        await asyncio.gather(holder(), waiter())
        return order

    assert asyncio.run(both()) == ["in", "out", "next"]
