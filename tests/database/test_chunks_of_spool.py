"""spool on a database: a reader agrees with plain Python however its bytes are cut, and misses no chunk."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from asgiref.sync import async_to_sync
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_statestore.contracts.artifact import SpooledArtifact
from django_statestore.contracts.reader import SpoolReader
from django_statestore.exceptions import BlobGone
from django_statestore.models import SpoolChunk
from django_statestore.store import Store
from tests.calling import Call
from tests.unit.spools import chunks_of


class Model:
    """Be the whole body, in plain Python."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.text = body.decode("utf-8-sig", "replace")
        self.lines = self.text.split("\n") if body else []


PIECES = [b"\n", b"\r\n", b"a", "é".encode(), "€".encode(), "😀".encode(), b"\xef\xbb\xbf", b"\xff", b"\xe2\x82", b"\0"]

bodies = st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=40).map(b"".join) | st.binary(max_size=99)

by_property = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


@given(body=bodies, size=st.integers(1, 9), data=st.data())
@by_property
def test_a_reader_agrees_with_the_whole_bytes(
    store: Store, call: Call, body: bytes, size: int, data: st.DataObject
) -> None:
    model = Model(body)
    with chunks_of(store, size):
        reader = call(store.spool.write, "c", body)
    assert (reader.byte_length, reader.line_count) == (len(body), len(model.lines))
    assert call(reader.read_bytes) == body
    assert call(reader.read_all) == model.text
    assert call(reader.lines) == model.lines
    assert [call(reader.line, index) for index in range(-1, len(model.lines) + 1)] == [None, *model.lines, None]
    bounds = st.integers(0, len(body) + 2)
    for _ in range(5):
        start, stop = data.draw(bounds), data.draw(bounds | st.none())
        assert call(reader.read_bytes, start, stop) == body[start:stop]
        assert call(reader.lines, start, stop) == model.lines[start:stop]
    with reader.open() as file:
        assert b"".join(iter(lambda: file.read(3), b"")) == body


@given(body=bodies, size=st.integers(1, 9), n=st.integers(-2, 45), data=st.data())
@by_property
def test_an_artifact_agrees_with_the_whole_bytes(
    store: Store, call: Call, body: bytes, size: int, n: int, data: st.DataObject
) -> None:
    model = Model(body)
    with chunks_of(store, size):
        artifact = SpooledArtifact(call(store.spool.write, "c", body))
    assert (artifact.byte_length, artifact.line_count) == (len(body), len(model.lines))
    assert call(artifact.head, n) == model.lines[: max(n, 0)]
    assert call(artifact.tail, n) == (model.lines[-n:] if n > 0 else [])
    start, stop = data.draw(st.integers(-3, 45)), data.draw(st.none() | st.integers(-3, 45))
    assert call(artifact.cat, start, stop) == model.lines[max(start, 0) : None if stop is None else max(stop, 0)]
    assert call(artifact.as_string) == model.text
    pattern = data.draw(st.sampled_from(["", "a", "é", "😀", "\ufffd", "\r", "\0"]) | st.text(max_size=3))
    expected = [line for line in model.lines if pattern in line]
    assert call(artifact.grep, pattern) == expected
    assert call(artifact.grep, pattern, max(n, 0)) == expected[: max(n, 0)]


@pytest.fixture
def reader(store: Store, call: Call) -> Iterator[SpoolReader]:
    with chunks_of(store, 5):
        yield call(store.spool.write, "c", "".join(f"line {number}\n" for number in range(10)))


def test_the_asynchronous_form_gives_pieces(reader: SpoolReader) -> None:
    async def pieces() -> list[bytes]:
        return [piece async for piece in reader.aopen()]

    found = async_to_sync(pieces)()
    assert len(found) > 1
    assert b"".join(found) == reader.read_bytes()


@pytest.mark.parametrize("number", [0, 1, 6, 7, 13])
def test_a_missing_chunk_is_never_the_end_and_never_another(
    reader: SpoolReader, store: Store, call: Call, number: int
) -> None:
    body, lines = call(reader.read_bytes), call(reader.lines)
    SpoolChunk.objects.using(store.alias).filter(blob_id=reader._blob.id, number=number).delete()
    for method in (reader.read_all, reader.read_bytes, reader.lines):
        with pytest.raises(BlobGone, match="'c'"):
            call(method)
    with pytest.raises(BlobGone):
        call(SpooledArtifact(reader).grep, "no such text")
    with pytest.raises(BlobGone), reader.open() as file:
        file.read()
    for index, line in enumerate(lines):
        begin = body.index(line.encode()) if line else len(body)
        if number in {at // 5 for at in range(begin, begin + len(line))}:
            with pytest.raises(BlobGone):
                call(reader.line, index)
        else:
            with suppress(BlobGone):  # the line end before it, or after it, may have been there
                assert call(reader.line, index) == line
    for start, size in itertools.product(range(0, 70, 7), (3, 12)):
        stop = min(start + size, len(body))
        if number in {at // 5 for at in range(start, stop)}:
            with pytest.raises(BlobGone):
                call(reader.read_bytes, start, stop)
        else:
            assert call(reader.read_bytes, start, stop) == body[start:stop]


def test_chunks_that_go_between_two_reads(reader: SpoolReader, store: Store, call: Call) -> None:
    file = reader.open()
    assert call(reader.line, 0) == "line 0"
    assert file.read(5) == b"line "
    SpoolChunk.objects.using(store.alias).filter(blob_id=reader._blob.id, number__gte=3).delete()
    assert call(reader.line, 0) == "line 0"
    with pytest.raises(BlobGone):
        call(reader.line, 9)
    with pytest.raises(BlobGone):
        file.read()
    SpoolChunk.objects.using(store.alias).filter(blob_id=reader._blob.id).delete()
    with pytest.raises(BlobGone):
        call(reader.line, 0)


def test_the_json_of_a_ref_says_how_much_there_is(reader: SpoolReader) -> None:
    assert json.loads(json.dumps(reader.ref)) | {"spool": ""} == {
        "spool": "", "call_id": "c", "byte_length": 70, "line_count": 11,
    }  # fmt: skip
