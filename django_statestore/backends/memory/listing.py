"""How a namespace of any facet is counted, listed and cleared in memory."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ...contracts.base import EntryInfo, ListingPrimitives
from .primitives import MemoryPrimitives, reads, writes
from .shelf import Shelf


class ListingOperations(MemoryPrimitives, ListingPrimitives):
    """Fill in the primitives that every facet shares."""

    @reads
    def entries_count(self, now: int, facet: str, namespace: str) -> int:
        return sum(row.alive(now) for row in self._shelf(facet).within(namespace))

    @writes
    def entries_clear(self, now: int, facet: str, namespace: str) -> None:
        self._shelf(facet).clear(namespace, now)

    @reads
    def entries_scan(
        self, now: int, facet: str, namespace: str, prefix: str, after: str, limit: int
    ) -> list[EntryInfo]:
        live = (row for row in self._shelf(facet).listed(namespace, prefix, after) if row.alive(now))
        return [
            EntryInfo(row.key, row.size, None if row.expires_at is None else (row.expires_at - now) / 1_000_000)
            for row in islice(live, limit)
        ]

    @writes
    def entries_purge(self, now: int, facet: str, limit: int) -> int:
        return self._shelf(facet).purge(now, limit)

    def _shelf(self, facet: str) -> Shelf[Any]:
        memory = self.memory
        shelves: dict[str, Shelf[Any]] = {
            "kv": memory.kv,
            "handoff": memory.handoff,
            "lock": memory.locks,
            "dedup": memory.dedup,
            "list": memory.lists,
            "queue": memory.queues,
            "spool": memory.spool,
        }
        return shelves[facet]
