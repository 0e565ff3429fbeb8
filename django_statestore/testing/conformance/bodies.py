"""What the cases of spools share."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ... import conf
from ...store import Store
from .base import later, purge

BODIES: dict[str, tuple[bytes, list[str] | None]] = {
    "empty": (b"", []),
    "a": (b"a", ["a"]),
    "line-end": (b"\n", ["", ""]),
    "last-line-empty": (b"a\nb\n", ["a", "b", ""]),
    "no-last-line-end": (b"a\nb", ["a", "b"]),
    "crlf": (b"a\r\nb\r\n", ["a\r", "b\r", ""]),
    "cr": (b"a\rb", ["a\rb"]),
    "only-line-feeds-end-lines": ("a\fb\v\u2028c\u2029\u0085d\x1c\x1d\x1ee\nf".encode(), None),
    "multi-byte": ("h\u00e9llo \u20ac\U0001f600\nw\u00f6rld".encode(), None),
    "bom": (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
    "bom-alone": (b"\xef\xbb\xbf", [""]),
    "half-a-bom": (b"\xef\xbb", ["\ufffd"]),
    "nul": (b"a\0b\n\0", ["a\0b", "\0"]),
    "bad-bytes": (b"ok\xc0", ["ok\ufffd"]),
    "cut-short": (b"ok\xe2\x82", ["ok\ufffd"]),
    "cut-by-a-line-end": (b"ok\xe2\x82\n\xacb", ["ok\ufffd", "\ufffdb"]),
    "utf-16": (b"\xff\xfe\x00\x01\x80", None),
    "all-bytes": (bytes(range(256)), None),
    "long": (b"0123456789\n" * 40, None),
}
"""Bodies by name, and their lines; None: what plain Python makes of them."""

# What is told apart at the border of two chunks: line ends, characters of each length, and their broken pieces.
_PIECES = [
    b"\n", b"\r\n", b"a", "\u00e9".encode(), "\u20ac".encode(), "\U0001f600".encode(), b"\xef\xbb\xbf", b"\xff",
    b"\xe2\x82", b"\0",
]  # fmt: skip


def random_bodies(count: int) -> Iterator[tuple[random.Random, bytes]]:
    """Yield bodies made of what is hard to cut, the same ones every time, and the source of chance to go on with."""
    for seed in range(count):
        chance = random.Random(seed)
        yield chance, b"".join(chance.choices(_PIECES, k=chance.randrange(40)))


class Model:
    """Be the whole body, in plain Python."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.text = body.decode("utf-8-sig", "replace")
        self.lines = self.text.split("\n") if body else []


@contextmanager
def chunks_of(store: Store, size: int) -> Iterator[None]:
    """Cut what is written meanwhile into chunks of that many bytes; a piece, which is written at once, has 16."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.backend, "spool_chunk_size", size)
        yield


def after_the_grace(store: Store) -> None:
    """Let the time pass in which readers of dropped versions may go on, and purge."""
    later(store, conf.get().spool_grace / 1000 + 1)
    purge(store)


def after_the_lease(store: Store) -> None:
    """Let the time pass in which an upload may pause, and purge."""
    later(store, conf.get().spool_lease / 1000 + 1)
    purge(store)
