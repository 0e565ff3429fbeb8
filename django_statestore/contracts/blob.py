"""A blob, one written version of a spooled body, and how bytes are cut into its chunks."""

from __future__ import annotations

from dataclasses import dataclass

PIECE = 16
"""How many chunks are written, or read, at once: with chunks of 64 KB no call needs to hold more than some 1 MB."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Say what a blob holds, once all of it is written."""

    byte_length: int
    line_count: int
    chunk_count: int
    chunk_size: int
    """Bytes of every chunk but the last."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Name a finished blob as a backend knows it. It never changes."""

    id: int
    version: str
    call_id: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Chunk:
    """Hold a piece of a blob, and how many line ends lie before it."""

    number: int
    lines_before: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Use:
    """Say which durable task keeps a blob that no entry names, and by what name."""

    task: int
    name: str


class Cutter:
    """Cut the pieces of a body, as they come, into chunks of exactly ``size`` bytes and a last one of what is left."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rest = b""
        self._chunks = self._line_ends = self._bytes = 0

    def cut(self, piece: bytes, *, last: bool) -> list[Chunk]:
        """Return the chunks that are complete now; with the last piece, all that remain."""
        data = self._rest + piece
        end = len(data) if last else len(data) - len(data) % self._size
        chunks = [self._chunk(data[start : min(start + self._size, end)]) for start in range(0, end, self._size)]
        self._rest = data[end:]
        return chunks

    def _chunk(self, data: bytes) -> Chunk:
        chunk = Chunk(self._chunks, self._line_ends, data)
        self._chunks += 1
        self._line_ends += data.count(b"\n")
        self._bytes += len(data)
        return chunk

    @property
    def shape(self) -> Shape:
        """Return what was cut so far. Only a line feed ends a line, and no bytes are no line."""
        lines = self._line_ends + 1 if self._bytes else 0
        return Shape(self._bytes, lines, self._chunks, self._size)
