"""queue on Redis: the primitives over the scripts of ``queue_lua``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...contracts.queue import Enqueued, QueuePrimitives, Taken
from ...flow import Action
from ...keys import Entry
from . import queue_lua as lua
from .command import number, text, truth
from .primitives import Known, RedisPrimitives

_FAR = 2**53


class QueueCommands(RedisPrimitives, QueuePrimitives):
    """Fill in the primitives of queue."""

    def queue_enqueue(
        self, entry: Entry, payload: str, max_size: int | None, drop_oldest: bool, ttl: int | None
    ) -> Action[Enqueued]:
        limit = "" if max_size is None else min(max_size, _FAR)
        end = "" if ttl is None else ttl
        return self.writes(lua.ENQUEUE, self._queue_keys(entry), payload, limit, int(drop_oldest), end, read=_enqueued)

    def queue_dequeue(self, entry: Entry) -> Action[str | None]:
        return self.writes(lua.DEQUEUE, self._queue_keys(entry), read=text)

    def queue_peek(self, entry: Entry) -> Action[str | None]:
        # It tidies up, but twice is as good as once.
        return self.reads(lua.PEEK, self._queue_keys(entry), read=text)

    def queue_depth(self, entry: Entry) -> Action[int]:
        return self.reads(lua.DEPTH, self._queue_keys(entry), read=number)

    def queue_delete(self, entry: Entry) -> Action[bool]:
        return self.writes(lua.DELETE, self._queue_keys(entry), read=truth)

    def queue_take(self, entry: Entry, token: bytes, lease: int) -> Action[Taken | None]:
        return self.writes(lua.TAKE, self._queue_keys(entry), token, lease, read=_taken)

    def queue_ack(self, entry: Entry, token: bytes) -> Action[bool]:
        return self.writes(lua.ACK, self._queue_keys(entry), token, read=truth)

    def queue_release(self, entry: Entry, token: bytes, delay: int) -> Action[bool]:
        return self.writes(lua.RELEASE, self._queue_keys(entry), token, delay, read=truth)

    def queue_purge(self, limit: int) -> Action[int]:
        """Leave it to the operations: each removes some expired items of its queue, and a dead queue goes by itself."""
        return Known(0)

    def _queue_keys(self, entry: Entry) -> Sequence[bytes]:
        return [self.key(part, entry) for part in lua.PARTS]


def _enqueued(reply: Any) -> Enqueued:
    return Enqueued(bool(reply[0]), int(reply[1]))


def _taken(reply: Any) -> Taken | None:
    return None if reply is None else Taken(reply[0].decode(), int(reply[1]))
