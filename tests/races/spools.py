"""What the processes of the spool races do."""

from __future__ import annotations

import io
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from django.test import override_settings

from django_statestore import Store
from django_statestore.contracts.reader import SpoolReader
from django_statestore.contracts.source import Data
from django_statestore.exceptions import BlobGone
from django_statestore.flow import run
from django_statestore.keys import encode_namespace
from django_statestore.models import SpoolBlob, SpoolChunk, SpoolEntry
from django_statestore.testing import age

from .course import Meet, database, tabular

GRACE = 0.25
"""Seconds for which a reader may go on after its version was dropped."""

CHUNK = 100
IDS = ("short", "long")

SEEN = ("written", "deleted", "cleared", "purged", "pages", "gone")
"""What a race must have had to be one; a file of that name tells the others."""


def body(call_id: str, mark: int, turn: int) -> bytes:
    """Return lines that each tell where they are, in which version, and how many there are."""
    count = (3 if call_id == "short" else 150) + (7 * mark + turn) % 30
    return b"".join(b"%d %d %d %d\n" % (number, mark, turn, count) for number in range(count))


def in_pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), 700):
        yield data[start : start + 700]


def work(number: int, store: Store, meet: Meet, seconds: float) -> Counter[str]:
    """Write, delete, purge or read for so long, and until everything of `SEEN` was seen, if that comes in time."""
    cast(Any, store.backend).spool_chunk_size = CHUNK
    role = (write, write, delete, purge, read, read, read, read)[number]
    chance, seen = random.Random(number), Counter[str]()
    meet()
    began, turn = time.monotonic(), 0
    with override_settings(STATESTORE={"SPOOL_GRACE": GRACE}):
        while (passed := time.monotonic() - began) < seconds or (passed < 30 and not all(map(os.path.exists, SEEN))):
            role(number, store, chance, turn, seen)
            turn += 1
            for what in +seen:
                Path(what).touch()
    return seen


def write(number: int, store: Store, chance: random.Random, turn: int, seen: Counter[str]) -> None:
    call_id, began = chance.choice(IDS), time.monotonic()
    data = body(call_id, number, turn)
    sources: list[Data] = [data, in_pieces(data), io.BytesIO(data)]
    reader = store.spool.write(call_id, chance.choice(sources))
    with gone_only_after_grace(began, seen):
        assert reader.read_bytes() == data
    seen["written"] += 1


def delete(number: int, store: Store, chance: random.Random, turn: int, seen: Counter[str]) -> None:
    read(number, store, chance, turn, seen)  # so that there is mostly something to be read
    if turn % 10 == 0:
        store.spool.clear()
        seen["cleared"] += 1
    else:
        seen["deleted"] += store.spool.delete(chance.choice(IDS))


def purge(number: int, store: Store, chance: random.Random, turn: int, seen: Counter[str]) -> None:
    backend = cast(Any, store.backend)
    assert backend.spool_purge_writing(100).run() == 0, "an upload was taken while its lease ran"
    gone = backend.spool_purge_dropped(round(GRACE * 1000), 100).run()
    seen["purged"] += gone if tabular(store) else 1  # elsewhere it goes by itself


def read(number: int, store: Store, chance: random.Random, turn: int, seen: Counter[str]) -> None:
    """Read a version page by page; some read it again and again, until it is gone."""
    call_id, began = chance.choice(IDS), time.monotonic()
    reader = store.spool.read(call_id)
    if reader is None:
        seen["nothing"] += 1
        return
    until = began + (GRACE * 4 if number % 2 else 0)
    with gone_only_after_grace(began, seen):
        first = reader.line(0)
        assert first is not None
        mark, turn = map(int, first.split(" ")[1:3])
        whole = body(call_id, mark, turn)
        assert (reader.byte_length, reader.line_count) == (len(whole), whole.count(b"\n") + 1)
        while True:
            for right in chance.choice([lines, ranges, by_ref])(store, reader, whole):
                assert right
                seen["pages"] += 1
            if time.monotonic() >= until:
                return


@contextmanager
def gone_only_after_grace(began: float, seen: Counter[str]) -> Iterator[None]:
    """Let a version be gone, but not sooner than it may be that was there when this began."""
    try:
        yield
    except BlobGone:
        assert time.monotonic() - began > GRACE - 0.002, "gone before its grace was over"
        seen["gone"] += 1


def lines(store: Store, reader: SpoolReader, whole: bytes) -> Iterator[bool]:
    expected = whole.decode().split("\n")
    for start in range(0, len(expected), 20):
        yield reader.lines(start, start + 20) == expected[start : start + 20]


def ranges(store: Store, reader: SpoolReader, whole: bytes) -> Iterator[bool]:
    for start in range(0, len(whole), 333):
        yield reader.read_bytes(start, start + 333) == whole[start : start + 333]


def by_ref(store: Store, reader: SpoolReader, whole: bytes) -> Iterator[bool]:
    again = store.spool.open(reader.ref)
    yield again == reader
    yield again.open().read() == whole


def left_behind(store: Store) -> tuple[int, int, int]:
    """Return how many entries there are, and how many blobs when the time of all others is over."""
    backend = cast(Any, store.backend)
    age(store, 3600)
    blobs = run(backend.keys_flow("spool.blob", encode_namespace(store.names)))
    return store.spool.size(), len(blobs), len(blobs)


def settle(number: int, store: Store, meet: Meet) -> tuple[int, int, int]:
    """Let the purge take what is over; return how many entries, blobs and blobs with chunks there are then."""
    if not tabular(store):
        return left_behind(store)
    backend, alias = cast(Any, store.backend), database(store)
    entries, blobs = SpoolEntry.objects.using(alias), SpoolBlob.objects.using(alias)
    live = blobs.filter(lease_until=None, dropped_at=None)
    assert set(entries.values_list("blob", flat=True)) == set(live.values_list("pk", flat=True))
    age(store, 3600)
    backend.spool_purge_writing(10_000).run()
    backend.spool_purge_dropped(round(GRACE * 1000), 10_000).run()
    chunks = SpoolChunk.objects.using(alias).values("blob").distinct().count()
    return entries.count(), blobs.count(), chunks
