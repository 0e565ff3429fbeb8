"""The rows of list and queue: what is in them, and in which order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from .agenda import Agenda
from .clock import earlier
from .shelf import Row, Shelf

_SPARE = 64


@dataclass(slots=True, eq=False)
class ListRow(Row):
    """Hold one list, the oldest payload first."""

    _kept: list[str] = field(default_factory=list)
    _floor: int = 0
    """How many of those at the front are dropped already: they go together, later."""
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._kept) - self._floor

    @property
    def size(self) -> int:
        return self._bytes

    def append(self, payload: str) -> None:
        self._kept.append(payload)
        self._bytes += len(payload)

    def drop_beyond(self, most: int) -> None:
        """Drop the oldest until there are ``most`` at the most."""
        for index in range(self._floor, len(self._kept) - most):
            self._bytes -= len(self._kept[index])
            self._kept[index] = ""
            self._floor += 1
        if self._floor > len(self._kept) // 2 + _SPARE:
            del self._kept[: self._floor]
            self._floor = 0

    def mend(self) -> None:
        self._floor = next((index for index, payload in enumerate(self._kept) if payload), len(self._kept))
        self._bytes = sum(map(len, self._kept))

    def between(self, start: int, stop: int | None) -> Sequence[str]:
        """Return the payloads from ``start`` to ``stop``, both included; None: to the end."""
        return self._kept[self._floor + start : None if stop is None else self._floor + stop + 1]


@dataclass(slots=True, eq=False)
class QueueItem:
    """Hold one item. With a token it is, or was last, taken."""

    payload: str
    expires_at: int | None
    token: bytes | None = None
    hidden_until: int | None = None
    deliveries: int = 0


@dataclass(slots=True, eq=False)
class QueueRow(Row):
    """Hold one queue. An item is known by its number in the order of arrival, and keeps it when it comes back."""

    _items: OrderedDict[int, QueueItem] = field(default_factory=OrderedDict)
    _free: Agenda[int] = field(default_factory=Agenda)
    """The numbers of the items that may be had, by themselves."""
    _hidden: Agenda[int] = field(default_factory=Agenda)
    """The numbers of the others, by when they may be had again."""
    _expiring: Agenda[int] = field(default_factory=Agenda)
    _tokens: dict[bytes, int] = field(default_factory=dict)
    _dealt: int = 0
    _bytes: int = 0

    def __len__(self) -> int:
        """Return how many items there are, as of the last ``settle``."""
        return len(self._items)

    def alive(self, now: int) -> bool:
        self.settle(now)
        return bool(self._items)

    @property
    def size(self) -> int:
        return self._bytes

    @property
    def forget_at(self) -> int | None:
        return self._expiring.least

    def settle(self, now: int) -> None:
        """Remove the items that have expired, and bring back those whose lease or delay is over."""
        self.bury(now, len(self._items))
        while (number := self._hidden.pop(now)) is not None:
            self._free.put(number, number)

    def bury(self, now: int, limit: int) -> int:
        """Remove up to ``limit`` items that have expired; return how many went."""
        gone = 0
        while gone < limit and (number := self._expiring.pop(now)) is not None:
            self._remove(number)
            gone += 1
        return gone

    def add(self, payload: str, expires_at: int | None) -> None:
        self._dealt += 1
        self._items[self._dealt] = QueueItem(payload, expires_at)
        self._free.put(self._dealt, self._dealt)
        self._expiring.put(self._dealt, expires_at)
        self._bytes += len(payload)

    def drop_oldest(self) -> None:
        self._remove(next(iter(self._items)))

    def peek(self) -> str | None:
        number = self._free.first()
        return None if number is None else self._items[number].payload

    def dequeue(self) -> str | None:
        number = self._free.first()
        return None if number is None else self._remove(number).payload

    def take(self, token: bytes, until: int) -> QueueItem | None:
        """Hide the first item that may be had, and count the delivery."""
        number = self._free.pop()
        if number is None:
            return None
        item = self._items[number]
        self._forget_token(item)
        self._tokens[token] = number
        item.token, item.hidden_until = token, until
        item.deliveries += 1
        self._hidden.put(number, until)
        return item

    def ack(self, token: bytes) -> bool:
        number = self._tokens.get(token)
        if number is not None:
            self._remove(number)
        return number is not None

    def release(self, token: bytes, until: int) -> bool:
        number = self._tokens.get(token)
        if number is None:
            return False
        item = self._items[number]
        self._forget_token(item)
        item.hidden_until = until
        self._free.remove(number)
        self._hidden.put(number, until)
        return True

    def mend(self) -> None:
        free, hidden, expiring = Agenda[int](), Agenda[int](), Agenda[int]()
        for number, item in self._items.items():
            # What has come back already is looked at once more.
            (free if item.hidden_until is None else hidden).put(number, item.hidden_until or number)
            expiring.put(number, item.expires_at)
        tokens = {item.token: number for number, item in self._items.items() if item.token is not None}
        self._free, self._hidden, self._expiring, self._tokens = free, hidden, expiring, tokens
        self._bytes = sum(len(item.payload) for item in self._items.values())

    def age(self, by: int) -> None:
        for number, item in self._items.items():
            item.expires_at, item.hidden_until = earlier(item.expires_at, by), earlier(item.hidden_until, by)
            self._expiring.put(number, item.expires_at)
            if number not in self._free:
                self._hidden.put(number, item.hidden_until)

    def _remove(self, number: int) -> QueueItem:
        item = self._items.pop(number)
        self._forget_token(item)
        for agenda in (self._free, self._hidden, self._expiring):
            agenda.remove(number)
        self._bytes -= len(item.payload)
        return item

    def _forget_token(self, item: QueueItem) -> None:
        if item.token is not None:
            self._tokens.pop(item.token, None)
            item.token = None


class QueueShelf(Shelf[QueueRow]):
    """Keep the queues. One that has no items is gone."""

    def put(self, row: QueueRow) -> None:
        if len(row):
            Shelf.put(self, row)
        elif self.get(row.digest) is row:
            self.remove(row)

    def purge(self, now: int, limit: int) -> int:
        """Remove up to ``limit`` items that have expired, and queues that are left empty; return the items."""
        gone = 0
        while gone < limit and (digest := self._endings.pop(now)) is not None:
            queue = self._rows[digest]
            gone += queue.bury(now, limit - gone)
            self.put(queue)
        return gone
