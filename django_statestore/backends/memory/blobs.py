"""The rows of spool: entries, and the blobs that they name.

What a blob is, is told by its two instants, as on a database: *writing* with ``lease_until``, *live* with neither,
*dropped* with ``dropped_at``, *condemned* with both; a condemned one has no bytes any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from ... import conf
from ...contracts.blob import Blob, Chunk, Shape, Use
from .agenda import Agenda
from .clock import after, earlier
from .shelf import Row, Shelf

IDLE, IDLE_BYTES = 1000, 32 * 2**20
"""How many blobs that nobody needs, and bytes in them, are left to the purge."""


@dataclass(slots=True, eq=False)
class BlobRow:
    """Hold one written version."""

    id: int
    version: str
    namespace: str
    call_id: str
    shape: Shape
    lease_until: int | None = None
    dropped_at: int | None = None
    chunks: list[Chunk] = field(default_factory=list)
    uses: dict[int, str] = field(default_factory=dict)
    """The names under which durable tasks keep it, by the id of the task."""
    bytes: int = 0
    idle_bytes: int = 0
    """What of them was last counted among those that nobody needs for long."""

    @property
    def writing(self) -> bool:
        return self.lease_until is not None and self.dropped_at is None

    @property
    def needed(self) -> bool:
        return bool(self.uses) or (self.lease_until is None and self.dropped_at is None)

    def add(self, chunks: Sequence[Chunk]) -> None:
        self.chunks += chunks  # they and their bytes never change
        self.bytes += sum(len(chunk.data) for chunk in chunks)

    def empty(self) -> None:
        self.chunks.clear()
        self.bytes = 0

    @property
    def blob(self) -> Blob:
        return Blob(self.id, self.version, self.call_id, self.shape)


@dataclass(slots=True, eq=False)
class SpoolEntry(Row):
    """Name the version that a call id shows now."""

    blob: BlobRow

    @property
    def size(self) -> int:
        return self.blob.shape.byte_length


class Blobs:
    """Keep the blobs, and know those that may be taken away."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._rows: dict[int, BlobRow] = {}
        self._versions: dict[str, BlobRow] = {}
        self._writing: Agenda[int] = Agenda()
        self._dropped: Agenda[int] = Agenda()
        """Those that no task uses, by when they were dropped."""
        self._condemned: set[int] = set()
        self._used_by: defaultdict[int, set[int]] = defaultdict(set)
        self._idle_bytes = 0

    def new(self, version: str, namespace: str, call_id: str, shape: Shape) -> BlobRow:
        row = BlobRow(next(self._ids), version, namespace, call_id, shape)
        self._rows[row.id] = self._versions[version] = row
        return row

    def get(self, blob: int) -> BlobRow | None:
        return self._rows.get(blob)

    def of_version(self, version: str) -> BlobRow | None:
        return self._versions.get(version)

    def put(self, row: BlobRow) -> None:
        """Note that the instants or uses of ``row`` have changed."""
        if row.lease_until is not None and row.dropped_at is not None:
            self._condemned.add(row.id)
            row.empty()
        self._writing.put(row.id, row.lease_until if row.dropped_at is None else None)
        self._dropped.put(row.id, row.dropped_at if row.lease_until is None and not row.uses else None)
        self._weigh(row)

    def _weigh(self, row: BlobRow) -> None:
        idle = 0 if row.needed else row.bytes
        self._idle_bytes += idle - row.idle_bytes
        row.idle_bytes = idle

    def use(self, row: BlobRow, use: Use) -> None:
        """Let a task keep the blob."""
        row.uses[use.task] = str.__str__(use.name)
        self._used_by[use.task].add(row.id)

    def used_by(self, task: int) -> list[Blob]:
        """Return what a task keeps."""
        return [self._rows[blob].blob for blob in sorted(self._used_by.get(task, ()))]

    def copy_uses(self, source: int, target: int, now: int) -> None:
        """Let the task ``target`` keep what ``source`` keeps."""
        for blob in self._used_by.get(source, ()):
            row = self._rows[blob]
            if row.lease_until is None and row.dropped_at is not None:
                row.dropped_at = now
                self.use(row, Use(target, row.uses[source]))
                self.put(row)

    def release(self, task: int) -> None:
        """Take back every use of a task."""
        for blob in self._used_by.pop(task, ()):
            row = self._rows[blob]
            del row.uses[task]
            self.put(row)

    def purge_writing(self, now: int, limit: int) -> int:
        """Remove up to ``limit`` blobs that are condemned, or whose lease is over; return how many went."""
        return self._purge(self._writing, now, limit)

    def purge_dropped(self, before: int, limit: int) -> int:
        """Remove up to ``limit`` blobs that are condemned, or were dropped up to ``before`` and have no use."""
        return self._purge(self._dropped, before, limit)

    def _purge(self, agenda: Agenda[int], most: int, limit: int) -> int:
        gone = 0
        while gone < limit:
            blob = self._condemned.pop() if self._condemned else agenda.pop(most)
            if blob is None:
                break
            row = self._rows.pop(blob)
            del self._versions[row.version]
            self._writing.remove(blob)
            self._dropped.remove(blob)
            row.empty()
            self._weigh(row)
            gone += 1
        return gone

    def tidy(self, now: int, limit: int) -> int:
        """Remove what has been of no use for the grace, an upload that was given up too, once it is worth the while."""
        waiting = len(self._writing) + len(self._dropped) + len(self._condemned)
        if waiting <= IDLE and self._idle_bytes <= IDLE_BYTES:
            return 0
        before = after(now, -conf.get().spool_grace)
        gone = self.purge_writing(before, limit)
        return gone + self.purge_dropped(before, limit - gone)

    def age(self, namespace: str, by: int) -> None:
        for row in [row for row in self._rows.values() if row.namespace == namespace]:
            row.lease_until, row.dropped_at = earlier(row.lease_until, by), earlier(row.dropped_at, by)
            self.put(row)


class EntryShelf(Shelf[SpoolEntry]):
    """Keep the entries; a blob that loses its entry is dropped."""

    def __init__(self, blobs: Blobs) -> None:
        super().__init__()
        self._blobs = blobs

    def point(self, namespace: str, key: str, digest: bytes, blob: BlobRow, now: int) -> None:
        """Let the entry name ``blob``, and drop the one that it named."""
        entry = self.get(digest)
        if entry is None:
            self.put(SpoolEntry(namespace, key, digest, None, blob))
        else:
            self._drop(entry.blob, now)
            entry.blob = blob

    def take(self, digest: bytes, now: int) -> bool:
        """Remove the entry and drop its blob; return whether there was one."""
        entry = self.get(digest)
        if entry is None:
            return False
        self.remove(entry)
        self._drop(entry.blob, now)
        return True

    def clear(self, namespace: str, now: int) -> None:
        for entry in self.within(namespace):
            self.take(entry.digest, now)

    def _drop(self, blob: BlobRow, now: int) -> None:
        blob.dropped_at = now
        self._blobs.put(blob)
