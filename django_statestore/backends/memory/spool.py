"""spool in memory: an entry names a blob, whose bytes are chunks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ...contracts.blob import Blob, Chunk, Shape, Use
from ...contracts.spool import SpoolPrimitives
from ...keys import Entry
from .blobs import BlobRow
from .clock import after
from .primitives import MemoryPrimitives, reads, writes
from .shelf import named


class SpoolOperations(MemoryPrimitives, SpoolPrimitives):
    """Fill in the primitives of spool."""

    @writes
    def spool_store(
        self, now: int, entry: Entry, version: str, shape: Shape, chunks: Sequence[Chunk], use: Use | None
    ) -> Blob:
        row = self._new(entry, version, shape, chunks)
        self._settle(now, entry, row, use)
        return row.blob

    @writes
    def spool_begin(self, now: int, entry: Entry, version: str, chunks: Sequence[Chunk], lease: int) -> int:
        row = self._new(entry, version, Shape(0, 0, 0, self.spool_chunk_size), chunks)
        row.lease_until = after(now, lease)
        self.memory.blobs.put(row)
        return row.id

    @writes
    def spool_append(self, now: int, blob: int, chunks: Sequence[Chunk], lease: int) -> bool:
        row = self._being_written(blob)
        if row is None:
            return False
        row.add(chunks)
        row.lease_until = after(now, lease)
        self.memory.blobs.put(row)
        return True

    @writes
    def spool_finish(
        self, now: int, entry: Entry, blob: int, shape: Shape, chunks: Sequence[Chunk], use: Use | None
    ) -> bool:
        row = self._being_written(blob)
        if row is None:
            return False
        row.add(chunks)
        row.shape, row.lease_until = shape, None
        self._settle(now, entry, row, use)
        return True

    @writes
    def spool_abandon(self, now: int, blob: int) -> None:
        row = self._being_written(blob)
        if row is not None:
            row.dropped_at = now
            self.memory.blobs.put(row)

    @reads
    def spool_read(self, now: int, entry: Entry) -> Blob | None:
        found = self.memory.spool.get(entry.digest)
        return None if found is None else found.blob.blob

    @reads
    def spool_open(self, now: int, namespace: str, version: str) -> Blob | None:
        row = self.memory.blobs.of_version(version)
        return None if row is None or row.namespace != namespace or row.lease_until is not None else row.blob

    @writes
    def spool_delete(self, now: int, entry: Entry) -> bool:
        return self.memory.spool.take(entry.digest, now)

    @reads
    def spool_chunks(self, now: int, blob: int, first: int, last: int) -> list[Chunk]:
        row = self.memory.blobs.get(blob)
        return [] if row is None else row.chunks[first : last + 1]

    @reads
    def spool_chunks_of_lines(self, now: int, blob: int, start: int, stop: int, limit: int) -> list[Chunk]:
        row = self.memory.blobs.get(blob)
        if row is None:
            return []
        first, last = _chunk_of_line(row.chunks, start), _chunk_of_line(row.chunks, stop)
        return row.chunks[max(0, first) : min(last + 1, max(0, first) + limit)]

    @writes
    def spool_purge_writing(self, now: int, limit: int) -> int:
        return self.memory.blobs.purge_writing(now, limit)

    @writes
    def spool_purge_dropped(self, now: int, grace: int, limit: int) -> int:
        return self.memory.blobs.purge_dropped(after(now, -grace), limit)

    def _new(self, entry: Entry, version: str, shape: Shape, chunks: Sequence[Chunk]) -> BlobRow:
        namespace, call_id, _ = named(entry)
        row = self.memory.blobs.new(version, namespace, call_id, shape)
        row.add(chunks)
        return row

    def _being_written(self, blob: int) -> BlobRow | None:
        """Return the blob while it is written: also after its lease, where nothing was taken yet."""
        row = self.memory.blobs.get(blob)
        return row if row is not None and row.writing else None

    def _settle(self, now: int, entry: Entry, row: BlobRow, use: Use | None) -> None:
        """Let a use keep the finished blob, or the entry name it."""
        if use is None:
            self.memory.spool.point(*named(entry), row, now)
        else:
            row.dropped_at = now
            self.memory.blobs.use(row, use)
        self.memory.blobs.put(row)


def _chunk_of_line(chunks: Sequence[Chunk], line: int) -> int:
    """Return the index of the last chunk that has fewer line ends before it than ``line``; -1: there is none.

    The line begins right after its line end before it, which that chunk holds.
    """
    return bisect_left(chunks, line, key=lambda chunk: chunk.lines_before) - 1
