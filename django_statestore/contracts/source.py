"""Where spooled bytes come from: text, bytes, a file, or an iterable, blocking or asynchronous."""

from __future__ import annotations

import io
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from typing import Protocol, TypeAlias, runtime_checkable

from asgiref.sync import sync_to_async

from ..exceptions import ValueNotSerializable
from ..flow import Action


@runtime_checkable
class BinaryFile(Protocol):
    """Be a file that is open for reading, in binary mode."""

    def read(self, size: int, /) -> bytes: ...


Bytes: TypeAlias = bytes | bytearray | memoryview
Data: TypeAlias = str | Bytes | BinaryFile | Iterable[Bytes]
AsyncData: TypeAlias = Data | AsyncIterable[Bytes]

_READ = 65_536  # bytes asked of a file at once

_END = object()


class Source:
    """Give the bytes of ``data`` piece by piece; what is not bytes is refused when it comes up.

    A file is read from where it stands. The bytes of each item are copied before the next one is asked for.
    """

    def __init__(self, data: object) -> None:
        self.items: Iterator[object] | None = None
        self.later: AsyncIterator[object] | None = None
        self.blocks = True
        self._waiting = memoryview(b"")
        self._count = 0
        if isinstance(data, str):
            self.items, self.blocks = iter((_encoded(data),)), False
        elif isinstance(data, bytes | bytearray | memoryview):
            self.items, self.blocks = iter((data,)), False
        elif isinstance(data, io.TextIOBase):
            raise ValueNotSerializable("data", "it is a text file", "open it in binary mode, or give its .buffer")
        elif isinstance(data, AsyncIterable):
            self.later = aiter(data)
        elif isinstance(data, BinaryFile):
            self.items = iter(partial(data.read, _READ), b"")
        elif isinstance(data, Iterable) and not isinstance(data, Mapping):
            self.items = iter(data)
        else:
            raise ValueNotSerializable("data", f"it is a {type(data).__name__}", _REMEDY)

    def pull(self, size: int, seconds: float) -> Pull:
        """Return the action that gives up to ``size`` bytes, or fewer when ``seconds`` have gone by meanwhile."""
        return Pull(self, size, seconds)

    def take(self, size: int) -> bytes:
        """Return up to ``size`` bytes of the item that came last."""
        taken, self._waiting = self._waiting[:size], self._waiting[size:]
        return bytes(taken)

    def put(self, item: object) -> None:
        if not isinstance(item, bytes | bytearray | memoryview):
            raise ValueNotSerializable(f"data[{self._count}]", f"it is a {type(item).__name__}, not bytes", _REMEDY)
        self._count += 1
        self._waiting = memoryview(bytes(item))


class Pull(Action[tuple[bytes, bool]]):
    """Gather the next piece of a source; its result also says whether that was the last."""

    __slots__ = ("_piece", "_seconds", "_size", "_source")

    def __init__(self, source: Source, size: int, seconds: float) -> None:
        self._source, self._size, self._seconds = source, size, seconds
        self._piece = bytearray()

    def _wants_more(self, until: float) -> bool:
        self._piece += self._source.take(self._size - len(self._piece))
        return len(self._piece) < self._size and time.monotonic() < until

    def run(self) -> tuple[bytes, bool]:
        if self._source.items is None:
            raise ValueNotSerializable("data", "it is an asynchronous iterable", "use awrite()")
        until = time.monotonic() + self._seconds
        while self._wants_more(until):
            item = next(self._source.items, _END)
            if item is _END:
                return bytes(self._piece), True
            self._source.put(item)
        return bytes(self._piece), False

    async def arun(self) -> tuple[bytes, bool]:
        if self._source.later is None:
            return await sync_to_async(self.run, thread_sensitive=True)() if self._source.blocks else self.run()
        until = time.monotonic() + self._seconds
        while self._wants_more(until):
            item = await anext(self._source.later, _END)
            if item is _END:
                return bytes(self._piece), True
            self._source.put(item)
        return bytes(self._piece), False


_REMEDY = "give text, bytes, a file in binary mode, or an iterable of bytes"


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueNotSerializable(
            "data",
            "the text holds a lone surrogate, which UTF-8 cannot carry",
            "encode it yourself, with errors='replace' to lose it or errors='surrogatepass' to keep it",
        ) from None
