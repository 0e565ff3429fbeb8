"""spool on Redis: the primitives over the scripts of ``spool_lua``.

What a purge does elsewhere the server does here: it forgets an upload whose lease is over, and a dropped blob when the
grace ends. All keys of a namespace's spool are in one slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import conf
from ...contracts.blob import Blob, Chunk, Shape, Use
from ...contracts.spool import SpoolPrimitives
from ...exceptions import NotSupported, UploadLapsed
from ...flow import Action, Flow
from ...keys import Entry
from . import spool_lua as lua
from .command import Argument, Command, nothing, raw, truth
from .listing import ListingCommands
from .primitives import Known
from .server import Doing

_BATCH = 500
_BLOB = "spool.blob"
_SHAPE = ("bytes", "lines", "chunks", "size")


class SpoolCommands(ListingCommands, SpoolPrimitives):
    """Fill in the primitives of spool."""

    def spool_store(
        self, entry: Entry, version: str, shape: Shape, chunks: Sequence[Chunk], use: Use | None
    ) -> Action[Blob]:
        _refuse(use)
        return Doing(self._store, entry, version, shape, chunks)

    def spool_begin(self, entry: Entry, version: str, chunks: Sequence[Chunk], lease: int) -> Action[int]:
        name = self._blob_name(entry.namespace, version)
        blob = self._id_of(name)
        return self.writes(lua.BEGIN, [name], lease, "call", entry.key, *_fields(chunks), read=lambda reply: blob)

    def spool_append(self, blob: int, chunks: Sequence[Chunk], lease: int) -> Action[bool]:
        return self.writes(lua.APPEND, [self._name_of(blob)], lease, *_fields(chunks), read=truth)

    def spool_finish(
        self, entry: Entry, blob: int, shape: Shape, chunks: Sequence[Chunk], use: Use | None
    ) -> Action[bool]:
        _refuse(use)
        return Doing(self._settle, entry, self._name_of(blob), shape, "", [*_measures(shape), *_fields(chunks)])

    def spool_abandon(self, blob: int) -> Action[None]:
        return self.writes(lua.ABANDON, [self._name_of(blob)], read=nothing)

    def spool_read(self, entry: Entry) -> Action[Blob | None]:
        def read(reply: Any) -> Blob | None:
            if reply is None:
                return None
            version, *shape = reply.decode().split()
            return Blob(
                self._id_of(self._blob_name(entry.namespace, version)), version, entry.key, Shape(*map(int, shape))
            )

        return self.reads("GET", [self._entry_name(entry)], read=read)

    def spool_open(self, namespace: str, version: str) -> Action[Blob | None]:
        name = self._blob_name(namespace, version)

        def read(reply: Any) -> Blob | None:
            writing, call_id, *shape = reply
            if writing is not None or call_id is None:
                return None
            return Blob(self._id_of(name), version, call_id.decode(), Shape(*map(int, shape)))

        return self.reads("HMGET", [name], "writing", "call", *_SHAPE, read=read)

    def spool_delete(self, entry: Entry) -> Action[bool]:
        return Doing(self._delete, entry)

    def spool_chunks(self, blob: int, first: int, last: int) -> Action[list[Chunk]]:
        numbers = range(first, last + 1)
        fields = [field for number in numbers for field in (f"{number}n", f"{number}")]

        def read(reply: Any) -> list[Chunk]:
            found = zip(numbers, reply[::2], reply[1::2], strict=True)
            return [Chunk(number, int(before), data) for number, before, data in found if data is not None]

        return self.reads("HMGET", [self._name_of(blob)], *fields, read=read)

    def spool_chunks_of_lines(self, blob: int, start: int, stop: int, limit: int) -> Action[list[Chunk]]:
        def read(reply: Any) -> list[Chunk]:
            found = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
            return [Chunk(int(number), int(before), data) for number, before, data in found if data is not None]

        return self.reads(lua.CHUNKS_OF_LINES, [self._name_of(blob)], start, stop, limit, read=read)

    def spool_purge_writing(self, limit: int) -> Action[int]:
        """Leave it to the server, which removes what has expired by itself."""
        return Known(0)

    def spool_purge_dropped(self, grace: int, limit: int) -> Action[int]:
        """Leave it to the server too; the grace is the one of the moment in which a blob was dropped."""
        return Known(0)

    def entries_clear(self, facet: str, namespace: str) -> Action[None]:
        return Doing(self._clear_spool, namespace) if facet == "spool" else super().entries_clear(facet, namespace)

    # -- as flows -----------------------------------------------------------------------------------------------------

    def _store(self, entry: Entry, version: str, shape: Shape, chunks: Sequence[Chunk]) -> Flow[Blob]:
        name = self._blob_name(entry.namespace, version)
        fields = ["call", entry.key, *_measures(shape), *_fields(chunks)]
        pointer, lease = _pointer(version, shape), conf.get().spool_lease
        named = yield from self.writes(lua.STORE, [self._entry_name(entry), name], pointer, lease, *fields, read=raw)
        if named != 1 and not (yield from self._settle(entry, name, shape, named.decode(), [])):
            raise UploadLapsed(
                f"the write of {entry.key!r} took longer than STATESTORE['SPOOL_LEASE']: nothing was changed"
            )
        return Blob(self._id_of(name), version, entry.key, shape)

    def _settle(self, entry: Entry, name: bytes, shape: Shape, named: str, fields: Sequence[Argument]) -> Flow[bool]:
        """Let the entry name the blob, and drop the one that it named; False: the blob is gone."""
        times, pointer = conf.get(), _pointer(self._version_of(name), shape)
        while True:
            keys = [self._entry_name(entry), name]
            if named:
                keys.append(self._blob_name(entry.namespace, named))
            arguments = [named, pointer, times.spool_lease, times.spool_grace, *fields]
            reply = yield from self.writes(lua.SETTLE, keys, *arguments, read=raw)
            if not isinstance(reply, bytes):
                return bool(reply)
            named, fields = reply.decode(), []

    def _delete(self, entry: Entry) -> Flow[bool]:
        blob = yield from self.spool_read(entry)
        version = blob.version if blob else ""
        while version:
            reply = yield from self.server.do(self._deletion(self._entry_name(entry), entry.namespace, version))
            if not isinstance(reply, bytes):
                return bool(reply)
            version = reply.decode()
        return False

    def _clear_spool(self, namespace: str) -> Flow[None]:
        names = list((yield from self.keys_flow("spool", namespace)))
        for start in range(0, len(names), _BATCH):
            batch = names[start : start + _BATCH]
            found = yield from self.server.do_all([Command("GET", [name], [], raw, writes=False) for name in batch])
            left = {name: text[:32].decode() for name, text in zip(batch, found, strict=True) if text}
            while left:
                commands = [self._deletion(name, namespace, version) for name, version in left.items()]
                replies = yield from self.server.do_all(commands)
                left = {name: reply.decode() for name, reply in zip(left, replies, strict=True)
                        if isinstance(reply, bytes)}  # fmt: skip

    def _deletion(self, name: bytes, namespace: str, version: str) -> Command[Any]:
        keys = [name, self._blob_name(namespace, version)]
        return Command(lua.DELETE, keys, [version, conf.get().spool_grace], raw, writes=True)

    # -- names: a blob's id holds all that its key is named by --------------------------------------------------------

    def _entry_name(self, entry: Entry) -> bytes:
        return self.names_of.of_facet("spool", entry.namespace, "spool", entry.key)

    def _blob_name(self, namespace: str, version: str) -> bytes:
        return self.names_of.of_facet(_BLOB, namespace, "spool", version)

    def _id_of(self, name: bytes) -> int:
        rest = name[len(self.names_of.prefix) + len(_BLOB) :]  # :<32 digits>:{<16 digits>}:<32 digits>
        return int(rest[1:33] + rest[35:51] + rest[53:], 16)

    def _name_of(self, blob: int) -> bytes:
        digits = f"{blob:080x}"
        return self.names_of.prefix + f"{_BLOB}:{digits[:32]}:{{{digits[32:48]}}}:{digits[48:]}".encode()

    def _version_of(self, name: bytes) -> str:
        return name[-32:].decode()


def _refuse(use: Use | None) -> None:
    if use is not None:
        raise NotSupported(
            "a spool on Redis keeps nothing for durable tasks: they need a store on a database or in memory"
        )


def _pointer(version: str, shape: Shape) -> str:
    return f"{version} {shape.byte_length} {shape.line_count} {shape.chunk_count} {shape.chunk_size}"


def _measures(shape: Shape) -> list[Argument]:
    values = (shape.byte_length, shape.line_count, shape.chunk_count, shape.chunk_size)
    return [part for pair in zip(_SHAPE, values, strict=True) for part in pair]


def _fields(chunks: Sequence[Chunk]) -> list[Argument]:
    return [part for chunk in chunks
            for part in (f"{chunk.number}", chunk.data, f"{chunk.number}n", chunk.lines_before)]  # fmt: skip
