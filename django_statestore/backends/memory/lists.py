"""list in memory."""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.lists import ListPrimitives
from ...keys import Entry
from .clock import maybe_after
from .primitives import MemoryPrimitives, reads, writes
from .sequences import ListRow
from .shelf import named


class ListOperations(MemoryPrimitives, ListPrimitives):
    """Fill in the primitives of list."""

    @writes
    def list_append(self, now: int, entry: Entry, payload: str, max_len: int | None, ttl: int | None) -> int:
        row = self.memory.lists.live(entry.digest, now) or ListRow(*named(entry), None)
        row.append(payload)
        if max_len is not None:
            row.drop_beyond(max_len)
        if ttl is not None:
            row.expires_at = maybe_after(now, ttl)
        self.memory.lists.put(row)
        return len(row)

    @reads
    def list_range(self, now: int, entry: Entry, start: int, stop: int | None) -> Sequence[str]:
        row = self.memory.lists.live(entry.digest, now)
        return [] if row is None else row.between(start, stop)

    @reads
    def list_last(self, now: int, entry: Entry, count: int) -> Sequence[str]:
        row = self.memory.lists.live(entry.digest, now)
        return [] if row is None else row.between(max(0, len(row) - count), None)

    @reads
    def list_length(self, now: int, entry: Entry) -> int:
        row = self.memory.lists.live(entry.digest, now)
        return 0 if row is None else len(row)

    @writes
    def list_trim(self, now: int, entry: Entry, max_len: int) -> None:
        row = self.memory.lists.live(entry.digest, now)
        if row is not None and max_len:
            row.drop_beyond(max_len)
        elif row is not None:
            self.memory.lists.remove(row)

    @writes
    def list_delete(self, now: int, entry: Entry) -> bool:
        row = self.memory.lists.live(entry.digest, now)
        if row is not None:
            self.memory.lists.remove(row)
        return row is not None

    @writes
    def list_purge(self, now: int, limit: int) -> int:
        return self.memory.lists.purge(now, limit)
