"""Connections that are open and then are not: closed by the server, idle for too long, or left to a parent by a fork.

Each operation has a connection of its own, opened before; what becomes of it is seen over another one.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections, transaction

from django_statestore import Store
from tests.outages.load import Answer, Ask, read, write
from tests.outages.scripts import saved
from tests.outages.targets import ALIAS, Target

Cause: TypeAlias = Literal["closed", "idle", "forked"]


@dataclass(frozen=True)
class Trial:
    """An operation, what it returns when all is well, and for a write how often it has taken effect."""

    ask: Ask
    expected: Any
    effect: Callable[[], int] | None = None


def trials(store: Store) -> dict[str, Trial]:
    """Return the operations to try, each on entries of its own, and write those entries."""
    kv, queue, handoff, durable, dedup = store.kv, store.queue, store.handoff, store.durable, store.dedup
    for key in ("read", "set", "taken", "deleted"):
        kv.set(key, 1)
    for number in range(3):
        for key in ("read", "dequeued", "taken"):
            queue.enqueue(key, number)
        store.list.append("read", number)
    for key in ("read", "taken"):
        handoff.set(key, {"a": 1}, 600)
    store.spool.write("read", "text")
    durable.save("read", saved(1))
    lock, claim = store.lock.acquire("held"), dedup.claim("claimed", 600)
    assert lock is not None
    return {
        "kv.get": Trial(read(kv.get, "read"), 1),
        "kv.size": Trial(read(kv.size), None),
        "kv.scan": Trial(read(kv.scan, "read"), None),
        "list.range": Trial(read(store.list.range, "read"), [0, 1, 2]),
        "queue.peek": Trial(read(queue.peek, "read"), 0),
        "queue.depth": Trial(read(queue.depth, "read"), 3),
        "handoff.get": Trial(read(handoff.get, "read"), {"a": 1}),
        "durable.load": Trial(read(durable.load, "read"), saved(1)),
        "spool.read": Trial(read(store.spool.read, "read"), None),
        "kv.set": Trial(write(kv.set, "set", 2), None, lambda: int(kv.get("set") == 2)),
        "kv.add": Trial(write(kv.add, "added", 2), True, lambda: int(kv.get("added") == 2)),
        "kv.consume": Trial(write(kv.consume, "taken"), 1, lambda: int(kv.get("taken") is None)),
        "kv.delete": Trial(write(kv.delete, "deleted"), True, lambda: int(kv.get("deleted") is None)),
        "list.append": Trial(write(store.list.append, "new", 1), 1, lambda: store.list.length("new")),
        "queue.enqueue": Trial(write(queue.enqueue, "new", 1), 1, lambda: queue.depth("new")),
        "queue.dequeue": Trial(write(queue.dequeue, "dequeued"), 0, lambda: 3 - queue.depth("dequeued")),
        "queue.take": Trial(write(queue.take, "taken"), None, lambda: int(queue.peek("taken"))),  # 0 was first
        "handoff.set": Trial(write(handoff.set, "new", {}, 60), None, lambda: int(handoff.get("new") == {})),
        "handoff.get_and_delete": Trial(
            write(handoff.get_and_delete, "taken"), {"a": 1}, lambda: int(handoff.get("taken") is None)
        ),
        "lock.acquire": Trial(write(store.lock.acquire, "new"), None, lambda: store.lock.size() - 1),
        "lock.extend": Trial(write(store.lock.extend, "held", lock.token, 90), True, lambda: 1),
        "dedup.seen": Trial(write(dedup.seen, "new", 60), False, lambda: int(dedup.seen("new", 60))),
        "dedup.claim": Trial(write(dedup.claim, "other", 60), None, lambda: int(not dedup.claim("other", 60))),
        "dedup.confirm": Trial(write(claim.confirm), True, lambda: int(dedup.claim("claimed", 60).state == "done")),
        "durable.save": Trial(write(durable.save, "new", saved(2)), None, lambda: int(durable.load("new") == saved(2))),
        "spool.write": Trial(write(store.spool.write, "new", "x"), None, lambda: store.spool.size() - 1),
    }


def judged(trial: Trial, answer: Answer) -> str:
    """Return what is wrong with the answer, or nothing."""
    if answer.outcome == "wrong":
        return str(answer.value)
    if trial.effect is None:
        return "" if answer.done and trial.expected in (None, answer.value) else f"a read was noticed: {answer}"
    effects = trial.effect()
    allowed = {"done": {1}, "refused": {0}, "unknown": {0, 1}}[answer.outcome]
    if effects not in allowed:
        return f"{answer.outcome}, and it took effect {effects} times"
    return "" if not answer.done or trial.expected in (None, answer.value) else f"it returned {answer.value!r}"


def replaced(targets: Mapping[Cause, Target], namespace: str, asynchronous: bool) -> dict[Cause, tuple[list[str], int]]:
    """Try every operation for every cause; return for each what is wrong, and how many writes went through."""
    return {cause: tried(target, f"{namespace}-{cause}", cause, asynchronous) for cause, target in targets.items()}


def tried(target: Target, namespace: str, cause: Cause, asynchronous: bool) -> tuple[list[str], int]:
    store = target.store(namespace)
    asked = trials(store)
    if cause == "forked":
        answers = {name: over_fork(target, store, trial, asynchronous) for name, trial in asked.items()}
    else:
        answers = over_ended(target, store, cause, {name: trial.ask for name, trial in asked.items()}, asynchronous)
    found = [f"{name}: {text}" for name, trial in asked.items() if (text := judged(trial, answers[name]))]
    return found, sum(answers[name].done for name, trial in asked.items() if trial.effect)


# -- ended by the server ----------------------------------------------------------------------------------------------


def over_ended(
    target: Target, store: Store, cause: Cause, asks: dict[str, Ask], asynchronous: bool
) -> dict[str, Answer]:
    """Open a connection an operation, have the server end them all, and only then do the operations."""
    answers: dict[str, Answer] = {}
    opened, ended = (threading.Barrier(len(asks) + 1, timeout=60) for _ in range(2))

    def use(name: str) -> None:
        try:
            store.kv.get("read")
            opened.wait()
            ended.wait()
            answers[name] = asks[name].run()
        finally:
            connections.close_all()

    async def ause(name: str) -> None:
        async with ThreadSensitiveContext():
            try:
                await store.kv.aget("read")
                opened.wait()  # the event loop hears nothing meanwhile
                ended.wait()
                answers[name] = await asks[name].arun()
            finally:
                await sync_to_async(connections.close_all)()

    def run(name: str) -> None:
        if asynchronous:
            asyncio.run(ause(name))
        else:
            use(name)

    threads = [threading.Thread(target=run, args=(name,)) for name in asks]
    for thread in threads:
        thread.start()
    opened.wait()
    if cause == "closed":
        target.end_sessions()
    else:
        target.await_idle_end()
    ended.wait()
    for thread in threads:
        thread.join()
    return answers


# -- left to the parent -----------------------------------------------------------------------------------------------


def over_fork(target: Target, store: Store, trial: Trial, asynchronous: bool) -> Answer:
    """Do the operation in a fork of this process, which has a connection open and goes on with it at the same time."""
    store.kv.get("read")
    before = target.sessions()
    ours, theirs = os.pipe()
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*multi-threaded")
    pid = os.fork()
    if not pid:
        try:
            answer = asyncio.run(afresh(trial.ask)) if asynchronous else trial.ask.run()
            if trial.expected is None:  # it is not asked for, and may not travel
                answer = Answer(answer.outcome, answer.value if answer.outcome == "wrong" else None)
            os.write(theirs, pickle.dumps(answer))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(theirs)
    for _ in range(2):
        assert store.kv.get("read") == 1
    with os.fdopen(ours, "rb") as pipe:
        told: Answer = pickle.loads(pipe.read())
    os.waitpid(pid, 0)
    assert store.kv.get("read") == 1
    assert before <= target.sessions(), "the fork ended the connection of its parent"
    return told


def open_over_fork(target: Target, namespace: str) -> tuple[str, Any]:
    """Fork inside a transaction; return what the fork is told, and what the parent has committed in the end."""
    store = target.store(namespace)
    with transaction.atomic(using=ALIAS):
        store.kv.set("key", "the parent's")
        ours, theirs = os.pipe()
        warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*multi-threaded")
        pid = os.fork()
        if not pid:
            try:
                store.kv.set("key", "the fork's")
                os.write(theirs, b"nothing")
            except Exception as error:
                os.write(theirs, f"{type(error).__name__}: {error}".encode())
            finally:
                os._exit(0)
        os.close(theirs)
        with os.fdopen(ours) as pipe:
            told = pipe.read()
        os.waitpid(pid, 0)
    return told, store.kv.get("key")


async def afresh(ask: Ask) -> Answer:
    async with ThreadSensitiveContext():
        return await ask.arun()
