"""What the processes of the queue races do."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from django_statestore import Store
from django_statestore.contracts.queue import Item, Overflow
from django_statestore.exceptions import QueueFull, TransactionConflict
from django_statestore.models import QueueHead, QueueItem
from django_statestore.testing import CrashPoints, age
from tests.crash.ledger import Ledger

from .course import RACERS, Meet, at_once, block, database, tabular

EMPTY = "empty"


def counts(store: Store) -> dict[str, tuple[int, int, int]]:
    """Return of each queue the count that its head keeps, its rows, and its depth; without rows, the depth alone."""
    if not tabular(store):
        depths = {item.key: store.queue.depth(item.key) for item in store.queue.scan().items}
        return {key: (depth, depth, depth) for key, depth in depths.items()}
    heads = QueueHead.objects.using(database(store)).filter(namespace="race")
    rows = QueueItem.objects.using(database(store))
    return {head.key: (head.stored, rows.filter(queue=head).count(), store.queue.depth(head.key)) for head in heads}


# -- never "empty" while something is there ---------------------------------------------------------------------------


def dequeue(store: Store, key: str, chance: random.Random) -> Any:
    return store.queue.dequeue(key, EMPTY)


def dequeue_in_a_block(store: Store, key: str, chance: random.Random) -> Any:
    with block(store):
        return store.queue.dequeue(key, EMPTY)


def take_and_acknowledge(store: Store, key: str, chance: random.Random) -> Any:
    """Take an item, giving it back half of the time, until one is acknowledged."""
    while item := store.queue.take(key, lease=60):
        if chance.random() < 0.5:
            assert item.ack()
            return item.value
        assert item.release()
    return EMPTY


WAYS: dict[str, Callable[[Store, str, random.Random], Any]] = {
    "dequeue": dequeue,
    "dequeue in a block": dequeue_in_a_block,
    "take": take_and_acknowledge,
}


def drain(number: int, store: Store, meet: Meet, share: int) -> dict[str, list[Any]]:
    """Take an equal share of what was there before all began, in each way."""
    chance, got = random.Random(number), dict[str, list[Any]]()
    for way, remove in WAYS.items():
        if number == 0:
            with at_once(store):
                for item in range(share * RACERS):
                    store.queue.enqueue(way, item)
        meet()
        got[way] = [remove(store, way, chance) for _ in range(share)]
        meet()
        got[f"{way}, at last"] = [remove(store, way, chance)]
    return got


def circulate(number: int, store: Store, meet: Meet, turns: int) -> dict[str, list[Any]]:
    """Put one in and take one out, so that each who takes finds at least one: nobody takes without having put in."""
    chance, got = random.Random(number), dict[str, list[Any]]()
    for way, remove in WAYS.items():
        meet()
        got[way] = []
        for turn in range(turns):
            store.queue.enqueue(way, [number, turn])
            got[way].append(remove(store, way, chance))
    meet()
    return got


def produce_and_consume(number: int, store: Store, meet: Meet, turns: int) -> list[Any]:
    """Produce, or consume until all that will ever be produced was consumed by somebody; return what was consumed."""
    producers = RACERS // 2
    if number < producers:
        for turn in range(turns):
            store.queue.enqueue("q", [number, turn])
        meet()
        return []
    got: list[Any] = []
    for _ in range(turns):
        while (item := store.queue.dequeue("q", EMPTY)) == EMPTY:
            pass
        got.append(item)
    meet()
    return got


# -- who dies with an item --------------------------------------------------------------------------------------------


def die(number: int, store: Store, meet: Meet, turns: int) -> list[str]:
    """Put in, take out, acknowledge; half of the processes kill themselves somewhere. Return when nothing was found."""
    chance, missed = random.Random(number), list[str]()
    mortal = number % 2 == 1
    if mortal:
        turns = chance.randrange(1, turns)
    for turn in range(turns):
        dying = mortal and turn == turns - 1
        with CrashPoints(chance.randrange(12)) if dying else nullcontext():
            value = f"{number}.{turn}"
            if not work(store, value, give_back=turn % 3 == 0):
                missed.append(value)
    if mortal:
        os.kill(os.getpid(), signal.SIGKILL)
    return missed


def work(store: Store, value: str, *, give_back: bool) -> bool:
    """Put one in and take one out, and write down what is about to be done, and what is done."""
    ledger = Ledger(Path("ledger"))
    ledger.write("enqueuing", value)
    store.queue.enqueue("q", value)
    ledger.write("enqueued", value)
    item = store.queue.take("q", lease=60)
    if item is None:
        return False
    if give_back:
        assert item.release()
        return True
    ledger.write("acknowledging", item.value)
    assert item.ack()
    ledger.write("acknowledged", item.value)
    return True


def recover(number: int, store: Store, meet: Meet) -> list[str]:
    """Take what the dead have left, once their leases are over."""
    left = []
    assert store.queue.depth("q") == counts(store)["q"][0]
    age(store, 61)
    while item := store.queue.take("q"):
        assert item.ack()
        left.append(item.value)
    assert set(counts(store).values()) <= {(0, 0, 0)}
    return left


# -- limits -----------------------------------------------------------------------------------------------------------

LIMIT = 10


def squeeze(number: int, store: Store, meet: Meet) -> dict[str, tuple[bool, int]]:
    """Enqueue once into each of three queues of nine where ten may be; return whether it went in, and the depth."""
    answers = {}
    if number == 0:
        for policy in ("drop-oldest", "drop-newest", "reject"):
            for item in range(LIMIT - 1):
                store.queue.enqueue(policy, f"old {item}")
    for policy in ("drop-oldest", "drop-newest", "reject"):
        meet()
        try:
            answers[policy] = (True, store.queue.enqueue(policy, f"new {number}", LIMIT, policy))  # type: ignore[arg-type]
        except QueueFull:
            answers[policy] = (False, store.queue.depth(policy))
    return answers


def contents(number: int, store: Store, meet: Meet) -> dict[str, list[Any]]:
    """Return what each queue holds that is not empty, in order; each head counts as many."""
    found = {}
    for key, (stored, rows, depth) in counts(store).items():
        assert stored == rows == depth
        found[key] = [store.queue.dequeue(key) for _ in range(depth)]
    return {key: items for key, items in found.items() if items}


# -- everything at once -----------------------------------------------------------------------------------------------


@dataclass
class Storm:
    """What one process saw and did."""

    deepest: int = 0
    consumed: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)


def storm(number: int, store: Store, meet: Meet, turns: int) -> Storm:
    """Do anything to three queues of at most ten, half of it in a block of its own."""
    chance, seen, held = random.Random(number), Storm(), list[Item]()
    seconds = [None, None, 0.001, 0.02, 60]

    def one(turn: int) -> str:
        key = chance.choice("abc")
        match chance.randrange(15):
            case 0 | 1 | 2 | 3 | 4:
                policy: Overflow = chance.choice(get_args(Overflow)[:2])
                depth = store.queue.enqueue(key, f"{number}.{turn}", LIMIT, policy, ttl=chance.choice(seconds))
                seen.deepest = max(seen.deepest, depth)
                return "enqueue"
            case 5 | 6:
                if (value := store.queue.dequeue(key)) is not None:
                    seen.consumed.append(value)
                return "dequeue"
            case 7 | 8:
                if item := store.queue.take(key, lease=chance.choice([0.001, 0.02, 60])):
                    held.append(item)
                return "take"
            case 9 | 10 | 11:
                if held:
                    item = held.pop(chance.randrange(len(held)))
                    if item.ack():
                        seen.consumed.append(item.value)
                return "ack"
            case 12:
                if held:
                    held.pop(chance.randrange(len(held))).release(chance.choice([0, 0.02]))
                return "release"
            case 13:
                seen.deepest = max(seen.deepest, store.queue.depth(key))
                store.queue.peek(key)
                return "look"
            case _:
                if number == 0:  # two at once would lock the queues in an order of their own
                    store.queue.clear()
                else:
                    store.queue.delete(key)
                return "delete"

    for turn in range(turns):
        try:
            with block(store, chance.random() < 0.5):
                what = one(turn)
        except TransactionConflict as error:
            seen.conflicts.append(str(error))
        else:
            seen.done[what] += 1
        if turn % 15 == number:
            seen.done["purge"] += 1
            cast(Any, store.backend).queue_purge(100).run()
    return seen


def settle(number: int, store: Store, meet: Meet) -> dict[str, tuple[int, int, int]]:
    """Return the counts as they are, when the dead are not buried yet, and let the purge take what is over."""
    before = counts(store)
    assert {key: stored for key, (stored, *_) in before.items()} == {key: rows for key, (_, rows, _) in before.items()}
    age(store, 61)
    cast(Any, store.backend).queue_purge(100).run()
    return counts(store)
