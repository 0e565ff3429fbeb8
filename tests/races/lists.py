"""What the processes of the list races do."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from django_statestore import Store
from django_statestore.exceptions import TransactionConflict
from django_statestore.models import ListHead, ListItem

from .course import RACERS, Meet, block, database, tabular

KEPT = 10


@dataclass
class Seen:
    """What one process was answered."""

    lengths: list[int] = field(default_factory=list)
    windows: list[list[Any]] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)


def append(number: int, store: Store, meet: Meet, turns: int) -> Seen:
    """Append to one list without an end; return the lengths."""
    seen = Seen()
    for turn in range(turns):
        with block(store, turn % 2 == 1):
            seen.lengths.append(store.list.append("endless", [number, turn]))
    return seen


def append_and_look(number: int, store: Store, meet: Meet, turns: int) -> Seen:
    """Append to a list that keeps ten; two look at it until the others are done."""
    seen, writers = Seen(), RACERS - 2
    if number < writers:
        for turn in range(turns):
            seen.lengths.append(store.list.append("ten", [number, turn], max_len=KEPT, ttl=60))
        Path(f"done-{number}").touch()
    while number >= writers and len(list(Path().glob("done-*"))) < writers:
        seen.windows += [store.list.range("ten"), store.list.last("ten", 5)]
    return seen


def found(number: int, store: Store, meet: Meet, key: str, dealt: int) -> tuple[int, int, list[tuple[int, Any]]]:
    """Return how many were ever dealt a place, the length, and place and value of each that is there, in order.

    ``dealt`` is that number as it should be, for a store that does not keep it.
    """
    if not tabular(store):
        values = store.list.range(key)
        return dealt, store.list.length(key), [*enumerate(values, dealt - len(values) + 1)]
    head = ListHead.objects.using(database(store)).get(namespace="race", key=key)
    items = ListItem.objects.using(database(store)).filter(list=head, seq__gt=head.floor).order_by("seq")
    places = list(items.values_list("seq", flat=True))
    return head.seq, store.list.length(key), list(zip(places, store.list.range(key), strict=True))


def storm(number: int, store: Store, meet: Meet, turns: int) -> Seen:
    """Do anything to two lists, half of it in a block of its own."""
    chance, seen, backend = random.Random(number), Seen(), cast(Any, store.backend)

    def one(turn: int) -> str:
        key, mine = chance.choice("ab"), [number, turn]
        match chance.randrange(12):
            case 0 | 1 | 2:
                seen.lengths.append(store.list.append(key, mine, max_len=KEPT))
                return "append"
            case 3 | 4:
                seen.lengths.append(store.list.append(key, mine, max_len=KEPT, ttl=chance.choice([0.001, 0.02, 60])))
                return "append"
            case 5:
                store.list.trim(key, chance.randrange(KEPT))
                return "trim"
            case 6:
                store.list.delete(key)
                return "delete"
            case 7:
                backend.list_purge(100).run()
                return "purge"
            case 8 if number == 0:  # two at once would lock the lists in an order of their own
                store.list.clear()
                return "clear"
            case _:
                seen.windows.append(store.list.range(key))
                return "look"

    for turn in range(turns):
        try:
            with block(store, chance.random() < 0.5):
                what = one(turn)
        except TransactionConflict as error:
            seen.conflicts.append(str(error))
        else:
            seen.done[what] += 1
    return seen


def settle(number: int, store: Store, meet: Meet) -> dict[str, tuple[int, int, int]]:
    """Append to each list once more; return the length that this gave, the one that is told, and the values."""
    result = {}
    for key in "ab":
        length = store.list.append(key, "last")
        result[key] = (length, store.list.length(key), len(store.list.range(key)))
    if tabular(store):
        rows, heads = ListItem.objects.using(database(store)), ListHead.objects.using(database(store))
        for key, counted in result.items():
            assert rows.filter(list__namespace="race", list__key=key).count() == counted[2]
        assert not rows.exclude(list__in=heads.values("pk")).exists(), "items without their list"
    return result
