"""kv in memory."""

from __future__ import annotations

from ...contracts.kv import KVPrimitives
from ...keys import Entry
from .clock import maybe_after
from .primitives import MemoryPrimitives, reads, writes
from .rows import Value
from .shelf import named


class KVOperations(MemoryPrimitives, KVPrimitives):
    """Fill in the primitives of kv."""

    @reads
    def kv_get(self, now: int, entry: Entry) -> str | None:
        row = self.memory.kv.live(entry.digest, now)
        return None if row is None else row.payload

    @writes
    def kv_set(self, now: int, entry: Entry, payload: str, ttl: int | None) -> None:
        self._put(now, entry, payload, ttl)

    @writes
    def kv_add(self, now: int, entry: Entry, payload: str, ttl: int | None) -> bool:
        if self.memory.kv.live(entry.digest, now) is not None:
            return False
        self._put(now, entry, payload, ttl)
        return True

    @writes
    def kv_consume(self, now: int, entry: Entry) -> str | None:
        row = self.memory.kv.live(entry.digest, now)
        if row is None:
            return None
        self.memory.kv.remove(row)
        return row.payload

    @writes
    def kv_delete(self, now: int, entry: Entry) -> bool:
        row = self.memory.kv.live(entry.digest, now)
        if row is not None:
            self.memory.kv.remove(row)
        return row is not None

    @writes
    def kv_touch(self, now: int, entry: Entry, ttl: int | None) -> bool:
        row = self.memory.kv.live(entry.digest, now)
        if row is not None:
            row.expires_at = maybe_after(now, ttl)
            self.memory.kv.put(row)
        return row is not None

    def _put(self, now: int, entry: Entry, payload: str, ttl: int | None) -> None:
        self.memory.kv.put(Value(*named(entry), maybe_after(now, ttl), payload))
