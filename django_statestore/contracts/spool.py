"""spool: give bytes, get a reader."""

from __future__ import annotations

import math
import re
import secrets
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from .. import conf
from ..exceptions import BlobGone, InvalidArgument, UploadLapsed
from ..flow import Action, Flow, both
from ..keys import Entry, check_text
from .base import KeyedFacet, ListingPrimitives
from .blob import PIECE, Blob, Chunk, Cutter, Shape, Use
from .reader import SpoolReader
from .source import AsyncData, Source


class SpoolPrimitives(ListingPrimitives):
    """Be what a backend fills in. Where a ``use`` is given, it keeps the blob, and no entry comes to name it."""

    spool_chunk_size: int = 65_536

    @abstractmethod
    def spool_store(
        self, entry: Entry, version: str, shape: Shape, chunks: Sequence[Chunk], use: Use | None
    ) -> Action[Blob]:
        """Write a whole blob and make it the one that the entry names; the one before is dropped. All or nothing."""

    @abstractmethod
    def spool_begin(self, entry: Entry, version: str, chunks: Sequence[Chunk], lease: int) -> Action[int]:
        """Begin a blob with its first chunks and return its id; nobody sees it before ``spool_finish``."""

    @abstractmethod
    def spool_append(self, blob: int, chunks: Sequence[Chunk], lease: int) -> Action[bool]:
        """Add chunks, perhaps none, and renew the lease; False: the blob was purged, and nothing was written."""

    @abstractmethod
    def spool_finish(
        self, entry: Entry, blob: int, shape: Shape, chunks: Sequence[Chunk], use: Use | None
    ) -> Action[bool]:
        """Add the last chunks and do with the blob as ``spool_store`` does; False: it was purged."""

    @abstractmethod
    def spool_abandon(self, blob: int) -> Action[None]:
        """Leave a blob that was begun to the purge."""

    @abstractmethod
    def spool_read(self, entry: Entry) -> Action[Blob | None]:
        """Return the blob that the entry names."""

    @abstractmethod
    def spool_open(self, namespace: str, version: str) -> Action[Blob | None]:
        """Return the finished blob of that version, if it belongs to exactly this namespace and is not being purged."""

    @abstractmethod
    def spool_delete(self, entry: Entry) -> Action[bool]:
        """Remove the entry and drop its blob; return whether there was one."""

    @abstractmethod
    def spool_chunks(self, blob: int, first: int, last: int) -> Action[list[Chunk]]:
        """Return those of the chunks from number ``first`` to ``last`` that exist, in order."""

    @abstractmethod
    def spool_chunks_of_lines(self, blob: int, start: int, stop: int, limit: int) -> Action[list[Chunk]]:
        """Return the chunks that hold the lines from ``start`` until ``stop`` (not included), the first ``limit``.

        The first begins at, or before, the first byte of the line ``start``.
        """

    @abstractmethod
    def spool_purge_writing(self, limit: int) -> Action[int]:
        """Take away up to ``limit`` blobs whose lease is over or that were abandoned; return how many went."""

    @abstractmethod
    def spool_purge_dropped(self, grace: int, limit: int) -> Action[int]:
        """Take away up to ``limit`` blobs dropped ``grace`` milliseconds ago that no use keeps; return the count."""


class Spool(KeyedFacet[SpoolPrimitives]):
    """Keep large bodies of text or bytes by call id.

    A write makes a new version and never touches an old one. So a reader is a snapshot: after a rewrite, ``delete`` or
    ``clear`` it shows its own bytes for as long as ``STATESTORE["SPOOL_GRACE"]`` says, then it raises ``BlobGone``.
    Writes join the caller's transaction on a database.
    """

    name = "spool"

    def _write(self, call_id: str, data: AsyncData) -> Flow[SpoolReader]:
        """Store ``data`` under ``call_id``, replacing what was there, and return a reader of it.

        ``data`` is text (stored as UTF-8), bytes (copied), a file in binary mode (read from where it stands), or an
        iterable of bytes, for ``awrite`` also an asynchronous one. All or nothing: where the source fails, its error
        is raised and the entry stays as it was. Of several writers at once the last one wins, and nothing is mixed.

        What fits in some 1 MB is written in one step. More is written as it comes, each piece committed by itself, so
        no transaction is held while the source is asked (unless the caller has one open). A source may pause for
        ``STATESTORE["SPOOL_LEASE"]`` between two items; after a longer pause the purge may have taken what was
        written, and ``UploadLapsed`` is raised.
        """
        return (yield from self._upload(call_id, data, None))

    def _write_for_task(self, task: int, call_id: str, data: AsyncData, name: str) -> Flow[SpoolReader]:
        """Store ``data`` for the durable task with that row id, without an entry: ``read(call_id)`` does not see it.

        It is kept, and its ``ref`` can be opened, for as long as the task's row has its use row.
        """
        return (yield from self._upload(call_id, data, Use(task, name)))

    def _upload(self, call_id: str, data: AsyncData, use: Use | None) -> Flow[SpoolReader]:
        backend, entry, source = self._backend, self._entry(call_id), Source(data)
        cutter, version = Cutter(backend.spool_chunk_size), secrets.token_hex(16)
        size, lease = backend.spool_chunk_size * PIECE, conf.get().spool_lease
        piece, ended = yield from source.pull(size, math.inf)
        chunks = cutter.cut(piece, last=ended)
        if ended:
            stored = yield from backend.spool_store(entry, version, cutter.shape, chunks, use)
            return SpoolReader(stored, backend)
        blob = yield from backend.spool_begin(entry, version, chunks, lease)
        try:
            while not ended:
                # A slow source is left in time to renew the lease, with whatever it has given.
                piece, ended = yield from source.pull(size, lease / 3000)
                chunks = cutter.cut(piece, last=ended)
                if ended:
                    written = yield from backend.spool_finish(entry, blob, cutter.shape, chunks, use)
                else:
                    written = yield from backend.spool_append(blob, chunks, lease)
                if not written:
                    raise UploadLapsed(
                        f"the upload of {call_id!r} paused for longer than STATESTORE['SPOOL_LEASE'] and was purged: "
                        "write it again, with a longer lease or a faster source"
                    )
        except GeneratorExit:  # nobody drives this flow any more: the purge takes the blob when its lease is over
            raise
        except BaseException:
            with suppress(Exception):
                yield from backend.spool_abandon(blob)
            raise
        return SpoolReader(Blob(blob, version, call_id, cutter.shape), backend)

    def _read(self, call_id: str) -> Flow[SpoolReader | None]:
        """Return a reader of what ``call_id`` holds now, or None."""
        blob = yield from self._backend.spool_read(self._entry(call_id))
        return None if blob is None else SpoolReader(blob, self._backend)

    def _open(self, ref: Mapping[str, Any]) -> Flow[SpoolReader]:
        """Return a reader of the very version that ``reader.ref`` named, also after a rewrite.

        Raises ``BlobGone`` where it has been purged, or is not of exactly this namespace, and ``InvalidArgument`` for
        what is no ref.
        """
        version, call_id = _check_ref(ref)
        blob = yield from self._backend.spool_open(self._scope.namespace, version)
        if blob is None or blob.call_id != call_id:
            raise BlobGone(f"the version of {call_id!r} that the ref names is not, or no longer, in this namespace")
        reader = SpoolReader(blob, self._backend)
        for member in ("byte_length", "line_count"):
            if ref[member] != reader.ref[member]:
                raise InvalidArgument(f"ref[{member!r}] is not what the version that it names has")
        return reader

    def _delete(self, call_id: str) -> Flow[bool]:
        """Remove ``call_id``; return whether it was there. Its readers go on until the grace is over."""
        return (yield from self._backend.spool_delete(self._entry(call_id)))

    def _entry(self, key: str) -> Entry:
        return self._scope.entry(key, "the call id")

    write, awrite = both(_write)
    write_for_task, awrite_for_task = both(_write_for_task)
    read, aread = both(_read)
    open, aopen = both(_open)
    delete, adelete = both(_delete)


_VERSION = re.compile(r"[0-9a-f]{32}")
_MEMBERS = {"spool": str, "call_id": str, "byte_length": int, "line_count": int}


def _check_ref(ref: object) -> tuple[str, str]:
    """Return the version and the call id that a ref names, or refuse it."""
    if not isinstance(ref, Mapping):
        raise InvalidArgument(f"the ref is a {type(ref).__name__}: give the dict that reader.ref is")
    for member, kind in _MEMBERS.items():
        if member not in ref:
            raise InvalidArgument(f"ref[{member!r}] is missing: give the whole of what reader.ref is")
        if type(ref[member]) is not kind:
            raise InvalidArgument(f"ref[{member!r}] is a {type(ref[member]).__name__}, not a {kind.__name__}")
        if kind is int and ref[member] < 0:
            raise InvalidArgument(f"ref[{member!r}] is negative")
    for member in ref:
        if member not in _MEMBERS:
            raise InvalidArgument(f"ref[{member!r}] is unknown; known are {', '.join(_MEMBERS)}")
    if not _VERSION.fullmatch(ref["spool"]):
        raise InvalidArgument("ref['spool'] is no version: it has 32 hexadecimal digits")
    check_text(ref["call_id"], "ref['call_id']")
    return ref["spool"], ref["call_id"]
