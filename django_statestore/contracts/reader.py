"""What ``spool.write`` and ``spool.read`` give: a snapshot of one version, read by line or by range."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..exceptions import BlobGone, InvalidArgument, InvalidArgumentType
from ..flow import Flow, arun, both, run
from .blob import PIECE, Blob, Chunk

if TYPE_CHECKING:
    from .spool import SpoolPrimitives


@dataclass(frozen=True, slots=True)
class SpoolReader:
    """Read one version of a spooled body; it never shows another, whatever becomes of the entry.

    Text is decoded on reading, as UTF-8: a byte order mark at the very start is dropped, bad bytes become U+FFFD. Only
    a line feed ends a line and it is not part of it; a carriage return stays. No bytes are no line, and ``"a\\nb\\n"``
    has three, the last one empty. Only ``read_all`` and ``read_bytes`` hold more than the lines that were asked for.

    Once the version has been purged every method that needs its bytes raises ``BlobGone``.
    """

    _blob: Blob = field(repr=False)
    _backend: SpoolPrimitives = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<SpoolReader call_id={self.call_id!r} byte_length={self.byte_length} line_count={self.line_count}>"

    @property
    def call_id(self) -> str:
        return self._blob.call_id

    @property
    def byte_length(self) -> int:
        """Return the number of bytes that were written."""
        return self._blob.shape.byte_length

    @property
    def line_count(self) -> int:
        return self._blob.shape.line_count

    @property
    def ref(self) -> dict[str, Any]:
        """Return plain JSON that names this very version: ``store.spool.open(ref)``, in the same namespace."""
        return {
            "spool": self._blob.version,
            "call_id": self.call_id,
            "byte_length": self.byte_length,
            "line_count": self.line_count,
        }

    # -- text ---------------------------------------------------------------------------------------------------------

    def _line(self, index: int) -> Flow[str | None]:
        """Return the line with that index, from 0; None where there is none, also for -1."""
        if not 0 <= whole_number(index, "index") < self.line_count:
            return None
        return (yield from self._lines(index, index + 1))[0]

    def _lines(self, start: int = 0, stop: int | None = None) -> Flow[list[str]]:
        """Return the lines from ``start`` until ``stop``, which is not included; None: to the end.

        What lies beyond the end is left out; a negative bound is refused.
        """
        start, stop = _clamped(start, stop, self.line_count)
        if start >= stop:
            return []
        chunks = yield from self._backend.spool_chunks_of_lines(self._blob.id, start, stop, PIECE)
        if not chunks or (chunks[0].number and chunks[0].lines_before >= start):
            raise self._gone()
        self._check(chunks, chunks[0].number, len(chunks))
        data, skipped = [chunk.data for chunk in chunks], start - chunks[0].lines_before
        ends = chunks[0].lines_before + sum(piece.count(b"\n") for piece in data)
        following = chunks[-1].number + 1
        while ends < stop and following < self._blob.shape.chunk_count:
            more = yield from self.pieces_flow(following)
            data += more
            ends += sum(piece.count(b"\n") for piece in more)
            following += len(more)
        lines = b"".join(data).split(b"\n")[skipped : skipped + stop - start]
        return text(b"\n".join(lines), first=start == 0).split("\n")

    def _read_all(self) -> Flow[str]:
        """Return the whole body as text, its line ends as they are. It holds all of it in memory."""
        return text((yield from self._read_bytes()), first=True)

    # -- bytes --------------------------------------------------------------------------------------------------------

    def _read_bytes(self, start: int = 0, stop: int | None = None) -> Flow[bytes]:
        """Return the bytes as written, from ``start`` until ``stop``, which is not included; None: to the end.

        What lies beyond the end is left out; a negative bound is refused.
        """
        start, stop = _clamped(start, stop, self.byte_length)
        if start >= stop:
            return b""
        size = self._blob.shape.chunk_size
        first, last = start // size, (stop - 1) // size
        data: list[bytes] = []
        while first + len(data) <= last:
            data += yield from self.pieces_flow(first + len(data), last)
        return b"".join(data)[start - first * size : stop - first * size]

    def open(self) -> io.BufferedReader:
        """Return the bytes as a file: binary, seekable, read piece by piece. For text wrap it in a ``TextIOWrapper``.

        It blocks; in an event loop use ``aopen``.
        """
        return io.BufferedReader(_File(self), max(1, self._blob.shape.chunk_size))

    async def aopen(self) -> AsyncIterator[bytes]:
        """Give the bytes piece by piece, ``async for piece in reader.aopen()``: also to a ``StreamingHttpResponse``."""
        number = 0
        while number < self._blob.shape.chunk_count:
            for piece in await arun(self.pieces_flow(number)):
                yield piece
                number += 1

    # -- below them ---------------------------------------------------------------------------------------------------

    def pieces_flow(self, first: int, last: int | None = None) -> Flow[list[bytes]]:
        """Return the chunks from number ``first`` on: up to ``PIECE`` of them, and none after ``last``."""
        count = self._blob.shape.chunk_count if last is None else last + 1
        wanted = min(PIECE, count - first)
        chunks = yield from self._backend.spool_chunks(self._blob.id, first, first + wanted - 1)
        self._check(chunks, first, wanted)
        return [chunk.data for chunk in chunks]

    def _check(self, chunks: list[Chunk], first: int, count: int) -> None:
        """Raise ``BlobGone`` unless these are all of the chunks that were wanted."""
        if [chunk.number for chunk in chunks] != list(range(first, first + count)):
            raise self._gone()

    def _gone(self) -> BlobGone:
        return BlobGone(
            f"the bytes of {self.call_id!r} that this reader shows have been purged: they were replaced or deleted "
            "longer ago than STATESTORE['SPOOL_GRACE']; read the entry anew"
        )

    line, aline = both(_line)
    lines, alines = both(_lines)
    read_all, aread_all = both(_read_all)
    read_bytes, aread_bytes = both(_read_bytes)


class _File(io.RawIOBase):
    """Be the bytes of a reader as a file; one read is one chunk at most."""

    def __init__(self, reader: SpoolReader) -> None:
        self._reader, self._at = reader, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._checkClosed()
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._reader.byte_length}[whence]
        if at < 0:
            raise InvalidArgument("the position is before the start of the file")
        self._at = at
        return at

    def tell(self) -> int:
        self._checkClosed()
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._checkClosed()
        if self._at >= self._reader.byte_length or not len(buffer):
            return 0
        size = self._reader._blob.shape.chunk_size
        number, offset = divmod(self._at, size)
        (chunk,) = run(self._reader.pieces_flow(number, number))
        piece = chunk[offset : offset + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def text(data: bytes, *, first: bool) -> str:
    """Decode whole lines; ``first``: they begin the body, so a byte order mark there is dropped."""
    return data.decode("utf-8-sig" if first else "utf-8", "replace")


def whole_number(value: object, what: str) -> int:
    """Return an int as it is; another type, also a boolean, is a ``TypeError``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgumentType(f"{what} is a {type(value).__name__}, not an int")
    return value


def _clamped(start: int, stop: int | None, end: int) -> tuple[int, int]:
    stop = end if stop is None else whole_number(stop, "stop")
    if whole_number(start, "start") < 0 or stop < 0:
        raise InvalidArgument("start and stop count from 0 and cannot be negative")
    return start, min(stop, end)
