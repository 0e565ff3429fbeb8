"""spool on a database: an entry names a blob, whose bytes are chunk rows.

Whatever moves an entry's pointer locks the entry first, and then drops the blob that the pointer left: that blob is the
newest that anybody has committed, so exactly one blob of an entry stays live. Where one statement does both on
PostgreSQL it names the pointer that it has seen; if another moved it meanwhile the statement finds no row, changes
nothing, and the way over a transaction is taken: only a new statement can see the other's blob.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...contracts.blob import Blob, Chunk, Shape, Use
from ...contracts.spool import SpoolPrimitives
from ...keys import Entry
from .connection import Row
from .primitives import identity, reads, writes
from .spool_purge import SpoolPurgeStatements

_FIELDS = "version, namespace, call_id, byte_length, line_count, chunk_count, chunk_size"
_VALUES = "%(version)s, %(namespace)s, %(key)s, %(byte_length)s, %(line_count)s, %(chunk_count)s, %(chunk_size)s"

BEGIN = f"""
insert into statestore_spool_blob ({_FIELDS}, lease_until, created_at)
values ({_VALUES}, {{after[lease]}}, {{now}})
returning id
"""

STORE_LIVE = f"insert into statestore_spool_blob ({_FIELDS}, created_at) values ({_VALUES}, {{now}}) returning id"

STORE_DROPPED = f"""
insert into statestore_spool_blob ({_FIELDS}, dropped_at, created_at) values ({_VALUES}, {{now}}, {{now}}) returning id
"""

CHUNK = """
insert into statestore_spool_chunk (blob_id, number, lines_before, data)
values (%(blob)s, %(number)s, %(lines_before)s, %(data)s)
"""

_WRITING = "id = %(blob)s and lease_until is not null and dropped_at is null"

# A lease that is over but that no purge has noticed counts: while nothing was taken, the writer may go on.
RENEW = f"update statestore_spool_blob set lease_until = {{after[lease]}} where {_WRITING} returning 1"

_SHAPE = "byte_length = %(byte_length)s, line_count = %(line_count)s, chunk_count = %(chunk_count)s"

FINISH_LIVE = f"update statestore_spool_blob set lease_until = null, {_SHAPE} where {_WRITING} returning 1"

FINISH_DROPPED = f"""
update statestore_spool_blob set lease_until = null, dropped_at = {{now}}, {_SHAPE} where {_WRITING} returning 1
"""

ABANDON = f"update statestore_spool_blob set dropped_at = {{now}} where {_WRITING}"

USE = "insert into statestore_spool_use (task_id, blob_id, name) values (%(task)s, %(blob)s, %(name)s)"

# Makes the entry, or locks it and tells which blob it names.
LOCK = """
insert into statestore_spool_entry (digest, namespace, key, blob_id)
values (%(id)s, %(namespace)s, %(key)s, %(blob)s)
on conflict (digest) do update set namespace = excluded.namespace
returning blob_id
"""

POINT = "update statestore_spool_entry set blob_id = %(blob)s where digest = %(id)s"

DROP = "update statestore_spool_blob set dropped_at = {now} where id = %(blob)s"

# The order of the locks is the same as over a transaction: ``exists`` has the entry come first.
STORE_CHAINED = f"""
with seen as materialized (select blob_id from statestore_spool_entry where digest = %(id)s),
entry as (
    insert into statestore_spool_entry as e (digest, namespace, key, blob_id)
    values (%(id)s, %(namespace)s, %(key)s, nextval(pg_get_serial_sequence('statestore_spool_blob', 'id')))
    on conflict (digest) do update set blob_id = excluded.blob_id where e.blob_id = (select blob_id from seen)
    returning blob_id
),
before as (
    update statestore_spool_blob set dropped_at = {{now}}
    where id = (select blob_id from seen) and dropped_at is null and exists (select 1 from entry)
),
chunk as (
    insert into statestore_spool_chunk (blob_id, number, lines_before, data)
    select blob_id, 0, 0, %(data)s from entry where %(chunk_count)s > 0
)
insert into statestore_spool_blob (id, {_FIELDS}, created_at) select blob_id, {_VALUES}, {{now}} from entry returning id
"""

STORE_FOR_TASK_CHAINED = f"""
with blob as (
    insert into statestore_spool_blob ({_FIELDS}, dropped_at, created_at) values ({_VALUES}, {{now}}, {{now}})
    returning id
),
chunk as (
    insert into statestore_spool_chunk (blob_id, number, lines_before, data)
    select id, 0, 0, %(data)s from blob where %(chunk_count)s > 0
)
insert into statestore_spool_use (task_id, blob_id, name) select %(task)s, id, %(name)s from blob returning blob_id
"""

_BLOB = "b.id, b.version, b.call_id, b.byte_length, b.line_count, b.chunk_count, b.chunk_size"

READ = f"""
select {_BLOB} from statestore_spool_entry e join statestore_spool_blob b on b.id = e.blob_id where e.digest = %(id)s
"""

OPEN = f"""
select {_BLOB} from statestore_spool_blob b
where b.version = %(version)s and b.namespace = %(namespace)s and b.lease_until is null
"""

DELETE = "delete from statestore_spool_entry where digest = %(id)s returning blob_id"

DELETE_CHAINED = """
with seen as materialized (select blob_id from statestore_spool_entry where digest = %(id)s),
gone as (
    delete from statestore_spool_entry where digest = %(id)s and blob_id = (select blob_id from seen) returning blob_id
),
before as (
    update statestore_spool_blob set dropped_at = {now} where id = (select blob_id from gone)
)
select (select count(*) from seen), (select count(*) from gone)
"""

CHUNKS = """
select number, lines_before, data from statestore_spool_chunk
where blob_id = %(blob)s and number between %(first)s and %(last)s
order by number
"""

# The line n begins right after the n-th line end: in the last chunk that has fewer than n of them before it.
_CHUNK_OF_LINE_END = """
select number from statestore_spool_chunk where blob_id = %(blob)s and lines_before < %({})s
order by lines_before desc, number desc limit 1
"""

CHUNKS_OF_LINES = f"""
select number, lines_before, data from statestore_spool_chunk
where blob_id = %(blob)s
    and number >= coalesce(({_CHUNK_OF_LINE_END.format("start")}), 0)
    and number <= ({_CHUNK_OF_LINE_END.format("stop")})
order by number limit %(limit)s
"""


class SpoolStatements(SpoolPurgeStatements, SpoolPrimitives):
    """Fill in the primitives of spool."""

    @writes
    def spool_store(self, entry: Entry, version: str, shape: Shape, chunks: Sequence[Chunk], use: Use | None) -> Blob:
        parameters = _described(entry, version, shape) | _used(use)
        if self.database.dialect.chains and len(chunks) <= 1:
            data = chunks[0].data if chunks else b""
            row = self.row(STORE_FOR_TASK_CHAINED if use else STORE_CHAINED, parameters | {"data": data})
            if row:
                return Blob(int(row[0]), version, entry.key, shape)
        with self.database.transaction():
            blob = int(self.rows(STORE_DROPPED if use else STORE_LIVE, parameters)[0][0])
            self._insert(blob, chunks)
            self._settle(entry, blob, use)
        return Blob(blob, version, entry.key, shape)

    @writes
    def spool_begin(self, entry: Entry, version: str, chunks: Sequence[Chunk], lease: int) -> int:
        nothing_yet = Shape(0, 0, 0, self.spool_chunk_size)
        with self.database.transaction():
            blob = int(self.rows(BEGIN, _described(entry, version, nothing_yet) | {"lease": lease})[0][0])
            self._insert(blob, chunks)
        return blob

    @writes
    def spool_append(self, blob: int, chunks: Sequence[Chunk], lease: int) -> bool:
        with self.database.transaction():
            if not self.touched(RENEW, {"blob": blob, "lease": lease}):
                return False
            self._insert(blob, chunks)
        return True

    @writes
    def spool_finish(self, entry: Entry, blob: int, shape: Shape, chunks: Sequence[Chunk], use: Use | None) -> bool:
        with self.database.transaction():
            if not self.touched(FINISH_DROPPED if use else FINISH_LIVE, {"blob": blob} | _measured(shape)):
                return False
            self._insert(blob, chunks)
            self._settle(entry, blob, use)
        return True

    @writes
    def spool_abandon(self, blob: int) -> None:
        self.rows(ABANDON, {"blob": blob})

    @reads
    def spool_read(self, entry: Entry) -> Blob | None:
        return _blob(self.row(READ, {"id": entry.digest}))

    @reads
    def spool_open(self, namespace: str, version: str) -> Blob | None:
        return _blob(self.row(OPEN, {"namespace": namespace, "version": version}))

    @writes
    def spool_delete(self, entry: Entry) -> bool:
        if self.database.dialect.chains:
            seen, gone = self.rows(DELETE_CHAINED, {"id": entry.digest})[0]
            if seen == gone:
                return bool(gone)
        with self.database.transaction():
            row = self.row(DELETE, {"id": entry.digest})
            if row:
                self.rows(DROP, {"blob": row[0]})
        return bool(row)

    @reads
    def spool_chunks(self, blob: int, first: int, last: int) -> list[Chunk]:
        return _chunks(self.rows(CHUNKS, {"blob": blob, "first": first, "last": last}))

    @reads
    def spool_chunks_of_lines(self, blob: int, start: int, stop: int, limit: int) -> list[Chunk]:
        parameters = {"blob": blob, "start": start, "stop": stop, "limit": limit}
        return _chunks(self.rows(CHUNKS_OF_LINES, parameters))

    def _insert(self, blob: int, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            parameters = {"blob": blob, "number": chunk.number, "lines_before": chunk.lines_before, "data": chunk.data}
            self.rows(CHUNK, parameters)

    def _settle(self, entry: Entry, blob: int, use: Use | None) -> None:
        """Let a use keep the blob, or the entry name it; inside the transaction that finished it."""
        if use:
            self.rows(USE, {"blob": blob} | _used(use))
            return
        named = int(self.rows(LOCK, identity(entry) | {"blob": blob})[0][0])
        if named != blob:
            self.rows(POINT, {"id": entry.digest, "blob": blob})
            self.rows(DROP, {"blob": named})


def _described(entry: Entry, version: str, shape: Shape) -> dict[str, Any]:
    return identity(entry) | {"version": version} | _measured(shape)


def _measured(shape: Shape) -> dict[str, Any]:
    return {
        "byte_length": shape.byte_length,
        "line_count": shape.line_count,
        "chunk_count": shape.chunk_count,
        "chunk_size": shape.chunk_size,
    }


def _used(use: Use | None) -> dict[str, Any]:
    return {"task": use.task, "name": use.name} if use else {}


def _blob(row: Row | None) -> Blob | None:
    if row is None:
        return None
    number, version, call_id, *shape = row
    return Blob(int(number), version, call_id, Shape(*map(int, shape)))


def _chunks(rows: Sequence[Row]) -> list[Chunk]:
    return [Chunk(int(number), int(lines_before), bytes(data)) for number, lines_before, data in rows]
