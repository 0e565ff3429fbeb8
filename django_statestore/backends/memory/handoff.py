"""handoff in memory: as kv, but the id is never kept."""

from __future__ import annotations

from ...contracts.handoff import HandoffPrimitives
from ...keys import Entry
from .clock import after
from .primitives import MemoryPrimitives, reads, writes
from .rows import Value


class HandoffOperations(MemoryPrimitives, HandoffPrimitives):
    """Fill in the primitives of handoff."""

    @writes
    def handoff_set(self, now: int, entry: Entry, payload: str, ttl: int) -> None:
        nameless = entry.digest.hex()
        self.memory.handoff.put(Value(entry.namespace, nameless, entry.digest, after(now, ttl), payload))

    @reads
    def handoff_get(self, now: int, entry: Entry) -> str | None:
        row = self.memory.handoff.live(entry.digest, now)
        return None if row is None else row.payload

    @writes
    def handoff_take(self, now: int, entry: Entry) -> str | None:
        return self._take(now, entry)

    @writes
    def handoff_delete(self, now: int, entry: Entry) -> bool:
        return self._take(now, entry) is not None

    def _take(self, now: int, entry: Entry) -> str | None:
        row = self.memory.handoff.live(entry.digest, now)
        if row is None:
            return None
        self.memory.handoff.remove(row)
        return row.payload
