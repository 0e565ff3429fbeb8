"""What the processes of the kv, lock and dedup races do, and what they find when they begin."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django_statestore import Store
from django_statestore.testing import age

from .course import RACERS, Meet, at_once

# -- one winner a key -------------------------------------------------------------------------------------------------


def fill_values(store: Store, keys: list[str]) -> None:
    with at_once(store):
        for key in keys:
            store.kv.set(key, key, ttl=60)


def fill_windows(store: Store, keys: list[str]) -> None:
    with at_once(store):
        for key in keys:
            store.dedup.seen(key, 60)


def fill_claims(store: Store, keys: list[str]) -> None:
    for key in keys:
        store.dedup.claim(key, 600, lease=60)


def fill_locks(store: Store, keys: list[str]) -> None:
    for number, key in enumerate(keys):
        lock = store.lock.acquire(key, ttl=60)
        assert lock is not None
        if number % 2:
            lock.release()


def nothing(store: Store, keys: list[str]) -> None:
    """Leave the keys fresh."""


# What each process tries, what is there before, whether that has expired, and how many may win a key.
Batch = tuple[str, Callable[[Store, str], bool], Callable[[Store, list[str]], None], bool, int]
BATCHES: list[Batch] = [
    ("consume live", lambda store, key: store.kv.consume(key) == key, fill_values, False, 1),
    ("consume expired", lambda store, key: store.kv.consume(key) is not None, fill_values, True, 0),
    ("add fresh", lambda store, key: store.kv.add(key, 1, ttl=60), nothing, False, 1),
    ("add expired", lambda store, key: store.kv.add(key, 1), fill_values, True, 1),
    ("seen fresh", lambda store, key: not store.dedup.seen(key, 60), nothing, False, 1),
    ("seen expired", lambda store, key: not store.dedup.seen(key, 60), fill_windows, True, 1),
    ("seen lapsed", lambda store, key: not store.dedup.seen(key, 60), fill_claims, True, 1),
    ("claim fresh", lambda store, key: store.dedup.claim(key, 600).state == "new", nothing, False, 1),
    ("claim expired", lambda store, key: store.dedup.claim(key, 600).state == "new", fill_windows, True, 1),
    ("claim lapsed", lambda store, key: store.dedup.claim(key, 600).state == "new", fill_claims, True, 1),
    ("acquire fresh", lambda store, key: store.lock.acquire(key) is not None, nothing, False, 1),
    ("acquire expired", lambda store, key: store.lock.acquire(key) is not None, fill_locks, True, 1),
]


def one_winner(number: int, store: Store, meet: Meet, keys: list[str]) -> list[list[str]]:
    """Try every key of every batch as the others do; return the keys that were won, batch by batch."""
    won = []
    backend: Any = store.backend
    for index, (_, operate, fill, expired, _) in enumerate(BATCHES):
        here, mine = store.namespace(str(index)), []
        if number == 0:
            fill(here, keys)
            if expired:
                age(here, 61)
        for position, key in enumerate(keys):
            meet()
            if operate(here, key):
                mine.append(key)
            if expired and number == position % (3 * RACERS):  # a purge in between takes some of the others' rows
                for facet in ("kv", "dedup", "lock"):
                    backend.entries_purge(facet, 1).run()
        won.append(mine)
    return won


# -- turns ------------------------------------------------------------------------------------------------------------


def take_turns(number: int, store: Store, meet: Meet, rounds: int) -> dict[str, list[int]]:
    """Lock, look whether anybody else is inside, note the fence, and unlock; racer 0 returns the fences in order."""
    chance = random.Random(number)
    meet()
    for turn in range(rounds):
        key = chance.choice("ab")
        lock = store.lock.acquire(key)
        if lock is None:
            continue
        with alone(key), Path(f"{key}.fences").open("a") as fences:
            fences.write(f"{lock.fence}\n")
        ended = store.lock.force_release(key) if turn % 5 == 0 else lock.release()
        assert ended, "the lock was lost while it was held"
    meet()
    return {key: [int(line) for line in Path(f"{key}.fences").read_text().splitlines()] for key in "ab"}


def handle_events(number: int, store: Store, meet: Meet, keys: list[str]) -> list[str]:
    """Handle every event that is new, giving some of them back first; return those that were confirmed."""
    chance, confirmed = random.Random(number), []
    meet()
    for key in keys:
        while (claim := store.dedup.claim(key, 600)).state != "done":
            if claim.state == "pending":
                continue
            with alone(key):
                pass
            if chance.random() < 0.5:
                assert claim.forget()
            else:
                assert claim.confirm()
                confirmed.append(key)
    return confirmed


def pass_a_token(number: int, store: Store, meet: Meet, rounds: int) -> tuple[int, int]:
    """Take the one token and put it back, raised by one; return how often it was taken, and where it ended."""
    taken = 0
    if number == 0:
        store.kv.set("token", 0)
    meet()
    for turn in range(rounds):
        token = store.kv.consume("token")
        if token is not None:
            taken += 1
            if turn % 2:
                store.kv.set("token", token + 1, ttl=60)
            else:
                assert store.kv.add("token", token + 1)
    meet()
    return taken, store.kv.get("token")


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Fail if another process is in such a block too."""
    os.close(os.open(name, os.O_CREAT | os.O_EXCL))
    yield
    Path(name).unlink()
