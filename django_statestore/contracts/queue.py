"""queue: first in, first out, with a limit if wanted."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from .. import codec
from ..exceptions import InvalidArgument, QueueFull
from ..flow import Action, Flow, both
from ..keys import Entry
from ..ttl import Duration, milliseconds, optional_milliseconds, wait_milliseconds
from .arguments import whole
from .base import KeyedFacet, ListingPrimitives
from .tokens import new_token, token_digest

Overflow: TypeAlias = Literal["drop-oldest", "drop-newest", "reject"]


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Answer an enqueue: whether the item went in, and how many there are now."""

    accepted: bool
    depth: int


@dataclass(frozen=True, slots=True)
class Taken:
    """Answer a take: the payload, and how often the item was taken so far."""

    payload: str
    deliveries: int


class QueuePrimitives(ListingPrimitives):
    """Be what a backend fills in. Expired items are not there: they neither fill the queue nor count."""

    @abstractmethod
    def queue_enqueue(
        self, entry: Entry, payload: str, max_size: int | None, drop_oldest: bool, ttl: int | None
    ) -> Action[Enqueued]:
        """Add at the end. Where more than ``max_size`` would result, drop the oldest until it fits, or do nothing."""

    @abstractmethod
    def queue_dequeue(self, entry: Entry) -> Action[str | None]:
        """Remove the first item that nobody has taken and return its payload; never "empty" while one remains."""

    @abstractmethod
    def queue_peek(self, entry: Entry) -> Action[str | None]:
        """Return the payload that ``queue_dequeue`` would."""

    @abstractmethod
    def queue_depth(self, entry: Entry) -> Action[int]:
        """Count the items, taken ones that are not acknowledged among them."""

    @abstractmethod
    def queue_delete(self, entry: Entry) -> Action[bool]:
        """Remove the queue and all its items; return whether it had any."""

    @abstractmethod
    def queue_take(self, entry: Entry, token: bytes, lease: int) -> Action[Taken | None]:
        """Hide the first item that nobody has taken until its lease is over, for the holder of ``token``."""

    @abstractmethod
    def queue_ack(self, entry: Entry, token: bytes) -> Action[bool]:
        """Remove the item that ``token`` took; False: its lease was over and another took it, or it was dropped."""

    @abstractmethod
    def queue_release(self, entry: Entry, token: bytes, delay: int) -> Action[bool]:
        """Give the item back to its place, hidden for ``delay`` more; False as for ``queue_ack``."""

    @abstractmethod
    def queue_purge(self, limit: int) -> Action[int]:
        """Remove expired items, and what is left of empty queues, of all namespaces; return how many went."""


@dataclass(frozen=True, slots=True)
class Item:
    """Be an item that was taken: ``ack()`` it when it is done, or ``release()`` it. Truth means nothing here."""

    key: str
    value: Any = field(repr=False)
    deliveries: int
    """How often it was taken, from 1: more than once means that a taker before did not finish."""
    token: str = field(repr=False)
    _facet: Queue = field(repr=False, compare=False)

    def _ack(self) -> Flow[bool]:
        """Remove the item for good; False: the lease was over and another took it, or it was dropped."""
        return (yield from self._facet._ack(self.key, self.token))

    def _release(self, delay: Duration = 0) -> Flow[bool]:
        """Give the item back to its place in the queue, to be had after ``delay`` seconds; False as for ``ack``."""
        return (yield from self._facet._release(self.key, self.token, delay))

    ack, aack = both(_ack)
    release, arelease = both(_release)


class Queue(KeyedFacet[QueuePrimitives]):
    """Keep queues of values, first in, first out.

    ``dequeue`` is at-most-once: what its caller loses is gone. ``take`` is at-least-once: an item whose taker neither
    acknowledges nor releases it comes back when its lease is over. On a database every operation joins the caller's
    transaction, and a queue that was touched in one is held until it ends.
    """

    name = "queue"

    def _enqueue(
        self,
        key: str,
        value: Any,
        max_size: int | None = None,
        on_full: Overflow = "drop-oldest",
        ttl: Duration | None = None,
    ) -> Flow[int]:
        """Add ``value`` at the end and return the depth after that. With ``ttl`` (seconds) the item expires.

        Where more than ``max_size`` items would result: ``"drop-oldest"`` drops the oldest until it fits, a taken one
        too (its ``ack()`` is then False); ``"drop-newest"`` leaves the queue as it is; ``"reject"`` does so and raises
        ``QueueFull``.
        """
        limit = None if max_size is None else whole("max_size", max_size, least=1)
        if on_full not in get_args(Overflow):
            raise InvalidArgument(f"on_full must be one of {', '.join(get_args(Overflow))}")
        entry, payload = self._entry(key), codec.dumps(value)
        drop_oldest = on_full == "drop-oldest"
        done = yield from self._backend.queue_enqueue(entry, payload, limit, drop_oldest, optional_milliseconds(ttl))
        if on_full == "reject" and not done.accepted:
            raise QueueFull(f"the queue {key!r} holds {done.depth} items already")
        return done.depth

    def _dequeue(self, key: str, default: Any = None) -> Flow[Any]:
        """Remove the oldest item and return its value, or ``default`` where there is none. One winner an item."""
        payload = yield from self._backend.queue_dequeue(self._entry(key))
        return default if payload is None else codec.loads(payload)

    def _peek(self, key: str, default: Any = None) -> Flow[Any]:
        """Return the value that ``dequeue`` would, and leave it there."""
        payload = yield from self._backend.queue_peek(self._entry(key))
        return default if payload is None else codec.loads(payload)

    def _depth(self, key: str) -> Flow[int]:
        """Return how many items there are, those taken and not acknowledged among them; 0 for a missing queue."""
        return (yield from self._backend.queue_depth(self._entry(key)))

    def _delete(self, key: str) -> Flow[bool]:
        """Remove the queue and all its items; return whether it had any."""
        return (yield from self._backend.queue_delete(self._entry(key)))

    def _take(self, key: str, lease: Duration = 60) -> Flow[Item | None]:
        """Take the oldest item for ``lease`` seconds, or return None where there is none.

        Meanwhile nobody else sees it. If neither ``ack()`` nor ``release()`` comes, it is back in its place afterwards.
        """
        token = new_token()
        taken = yield from self._backend.queue_take(self._entry(key), token_digest(token), milliseconds(lease, "lease"))
        return None if taken is None else Item(key, codec.loads(taken.payload), taken.deliveries, token, self)

    def _ack(self, key: str, token: str) -> Flow[bool]:
        """Acknowledge by token, as ``Item.ack`` does, in any process."""
        return (yield from self._backend.queue_ack(self._entry(key), token_digest(token)))

    def _release(self, key: str, token: str, delay: Duration = 0) -> Flow[bool]:
        """Release by token, as ``Item.release`` does, in any process."""
        pause = wait_milliseconds(delay, "delay")
        return (yield from self._backend.queue_release(self._entry(key), token_digest(token), pause))

    enqueue, aenqueue = both(_enqueue)
    dequeue, adequeue = both(_dequeue)
    peek, apeek = both(_peek)
    depth, adepth = both(_depth)
    delete, adelete = both(_delete)
    take, atake = both(_take)
    ack, aack = both(_ack)
    release, arelease = both(_release)
