"""spool: how many statements an operation takes, and that the long body behind it is not read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore.contracts.artifact import SpooledArtifact
from django_statestore.store import Store
from tests.unit.spools import chunks_of

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)  # so that BEGIN and COMMIT count too


def statements(store: Store, operation: Callable[[], object]) -> list[str]:
    with CaptureQueriesContext(connections[store.alias]) as captured:
        operation()
    return [query["sql"] for query in captured.captured_queries]


SMALL: list[tuple[str, Callable[[Store], object], int, int]] = [  # on PostgreSQL, on SQLite
    ("first write", lambda store: store.spool.write("new", "text"), 1, 5),
    ("rewrite", lambda store: store.spool.write("c", "text"), 1, 7),
    ("write for a task", lambda store: store.spool.write_for_task(7, "c", "text", "facts"), 1, 5),
    ("read", lambda store: store.spool.read("c"), 1, 1),
    ("read nothing", lambda store: store.spool.read("none"), 1, 1),
    ("delete", lambda store: store.spool.delete("c"), 1, 4),
    ("delete nothing", lambda store: store.spool.delete("none"), 1, 3),
    ("size", lambda store: store.spool.size(), 1, 1),
    ("clear", lambda store: store.spool.clear(), 4, 4),
]


def test_small_operations(store: Store) -> None:
    expected, counted = {}, {}
    for name, operation, postgres, sqlite in SMALL:
        store.spool.write("c", "before")
        expected[name] = sqlite if connections[store.alias].vendor == "sqlite" else postgres
        counted[name] = len(statements(store, partial(operation, store)))
    assert counted == expected


def test_a_body_of_some_chunks_is_one_transaction(store: Store) -> None:
    with chunks_of(store, 1000):
        sent = statements(store, lambda: store.spool.write("c", b"x" * 15_500))
    assert len(sent) == 1 + 1 + 16 + 1 + 1, sent  # BEGIN, the blob, its chunks, the entry, COMMIT
    assert len([text for text in sent if text.startswith("COMMIT")]) == 1


def test_a_long_body_is_written_piece_by_piece(store: Store) -> None:
    with chunks_of(store, 1000):
        sent = statements(store, lambda: store.spool.write("c", iter([b"x" * 40_000])))
    commits = [text for text in sent if text.startswith("COMMIT")]
    assert len(commits) == 3  # 16 chunks, 16 chunks, and the rest with the pointer
    assert len(sent) == 3 * 2 + 3 + 40 + 1, sent


@pytest.fixture(scope="module")
def long_body() -> bytes:
    """Return 1,000 chunks of 100 bytes; every line has 16 bytes, but two are longer than a chunk."""
    lines = [b"line %10d" % number for number in range(100_000 // 16)]
    lines[4000:4400] = [b"x" * (399 * 16 + 15)]
    lines[100] += b"y" * 320
    return b"\n".join(lines)[:100_000]


def test_one_line_of_a_thousand_chunks(store: Store, long_body: bytes) -> None:
    with chunks_of(store, 100):
        reader = store.spool.write("c", long_body)
    assert reader._blob.shape.chunk_count == 1000
    lines = long_body.decode().split("\n")
    for index, most in [(0, 1), (1, 1), (2500, 1), (len(lines) - 1, 1), (100, 1), (4000, 5)]:
        assert len(statements(store, partial(reader.line, index))) <= most
        assert reader.line(index) == lines[index]


def test_a_line_reads_its_own_chunks_alone(store: Store, long_body: bytes) -> None:
    with chunks_of(store, 100):
        reader = store.spool.write("c", long_body)
    read: list[int] = []
    backend, blob = reader._backend, reader._blob.id
    for index in (0, 7, 2500, reader.line_count - 1):
        read.append(len(backend.spool_chunks_of_lines(blob, index, index + 1, 16).run()))
    assert max(read) <= 2
    assert len(backend.spool_chunks_of_lines(blob, 100, 101, 16).run()) in (4, 5)


def test_ranges_and_queries_of_a_thousand_chunks(store: Store, long_body: bytes) -> None:
    with chunks_of(store, 100):
        reader = store.spool.write("c", long_body)
    artifact = SpooledArtifact(reader)
    for operation in (
        lambda: reader.read_bytes(50_000, 50_010),
        lambda: reader.lines(2000, 2010),
        lambda: artifact.head(),
        lambda: artifact.tail(),
        lambda: artifact.cat(3000, 3010),
        lambda: artifact.grep("line", 3),
        lambda: reader.open().read(10),
    ):
        assert len(statements(store, operation)) == 1
    assert len(statements(store, lambda: artifact.grep("no such text"))) == 63  # 1,000 chunks, 16 at a time
    assert statements(store, lambda: reader.line(-1)) == []
    assert statements(store, lambda: reader.ref) == []
