"""spool: lines, ranges and files of a reader agree with plain Python on the whole bytes."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync
from django.http import FileResponse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_statestore.contracts.artifact import SpooledArtifact
from django_statestore.contracts.reader import SpoolReader
from django_statestore.exceptions import BlobGone, InvalidArgument
from django_statestore.models import SpoolChunk
from django_statestore.store import Store
from tests.calling import Call

from .spools import chunks_of

CHUNK = 65_536


class Model:
    """Be the whole body, in plain Python."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.text = body.decode("utf-8-sig", "replace")
        self.lines = self.text.split("\n") if body else []


# What is told apart at the border of two chunks: line ends, characters of each length, and their broken pieces.
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


# -- chunks of the real size ------------------------------------------------------------------------------------------

BORDERS = {
    "line-end-is-the-last-byte": b"a" * (CHUNK - 1) + b"\nsecond",
    "line-end-is-the-first-byte": b"a" * CHUNK + b"\nsecond",
    "line-ends-on-both-sides": b"a" * (CHUNK - 1) + b"\n\n\nlast",
    "two-bytes-cut": b"a" * (CHUNK - 1) + "é\nb".encode(),
    "three-bytes-cut-after-one": b"a" * (CHUNK - 1) + "€\nb".encode(),
    "three-bytes-cut-after-two": b"a" * (CHUNK - 2) + "€\nb".encode(),
    "four-bytes-cut-in-the-middle": b"a" * (CHUNK - 2) + "😀\nb".encode(),
    "exactly-one-chunk": b"a" * (CHUNK - 1) + b"\n",
    "exactly-two-chunks": b"a\n" * CHUNK,
    "exactly-one-piece": b"0123456789abcde\n" * CHUNK,
    "one-long-line": "é€😀".encode() * 300_000,
    "many-pieces": b"".join(b"%d\n" % number for number in range(300_000)),
    "only-line-ends": b"\n" * (2 * CHUNK + 1),
}


@pytest.mark.parametrize("name", BORDERS)
def test_borders_of_chunks(store: Store, call: Call, name: str) -> None:
    body = BORDERS[name]
    model = Model(body)
    reader = call(store.spool.write, "c", body)
    assert (reader.byte_length, reader.line_count) == (len(body), len(model.lines))
    assert call(reader.read_bytes) == body
    assert call(reader.lines) == model.lines
    last = len(model.lines) - 1
    for index in {0, 1, last // 2, last - 1, last}:
        assert call(reader.line, index) == (model.lines[index] if 0 <= index <= last else None)
    for at in (CHUNK - 1, CHUNK, 2 * CHUNK, len(body) - 1):
        assert call(reader.read_bytes, at, at + 2) == body[at : at + 2]
    artifact = SpooledArtifact(reader)
    assert call(artifact.tail, 3) == model.lines[-3:]
    assert call(artifact.grep, "9999") == [line for line in model.lines if "9999" in line]


# -- bounds -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def reader(store: Store, call: Call) -> Iterator[SpoolReader]:
    with chunks_of(store, 5):
        yield call(store.spool.write, "c", "".join(f"line {number}\n" for number in range(10)))


@pytest.mark.parametrize("index", [-1, -11, 11, 12, 10**30])
def test_a_line_out_of_range_is_none(reader: SpoolReader, call: Call, index: int) -> None:
    assert call(reader.line, index) is None


def test_the_last_line_is_empty(reader: SpoolReader, call: Call) -> None:
    assert call(reader.line, 10) == ""


@pytest.mark.parametrize("index", [True, False, 1.0, 1.5, "1", None])
def test_an_index_is_an_int(reader: SpoolReader, call: Call, index: Any) -> None:
    artifact = SpooledArtifact(reader)
    for method in (reader.line, reader.lines, reader.read_bytes, artifact.head, artifact.tail, artifact.cat):
        with pytest.raises(TypeError, match="not an int"):
            call(cast(Callable[[Any], object], method), index)
    if index is not None:  # which stands for the end
        for slicer in (reader.lines, reader.read_bytes, artifact.cat):
            with pytest.raises(TypeError, match="stop is a"):
                call(cast(Callable[[int, Any], object], slicer), 0, index)


def test_ranges_are_clamped(reader: SpoolReader, call: Call) -> None:
    assert call(reader.lines, 9, 99) == ["line 9", ""]
    assert call(reader.lines, 11) == call(reader.lines, 99, 100) == call(reader.lines, 5, 5) == []
    assert call(reader.lines, 7, 3) == []
    assert call(reader.lines, 3, 0) == []
    assert call(reader.read_bytes, 68, 99) == b"9\n"
    assert call(reader.read_bytes, 70) == call(reader.read_bytes, 99) == call(reader.read_bytes, 7, 3) == b""
    assert call(reader.read_bytes, 0, 0) == b""


@pytest.mark.parametrize("bounds", [(-1,), (0, -1), (-2, -1)])
def test_a_negative_bound_is_refused(reader: SpoolReader, call: Call, bounds: tuple[int, ...]) -> None:
    for method in (reader.lines, reader.read_bytes):
        with pytest.raises(InvalidArgument, match="negative"):
            call(cast(Callable[..., object], method), *bounds)


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_file_is_seekable(reader: SpoolReader) -> None:
    whole = io.BytesIO(reader.read_bytes())
    with reader.open() as file:
        assert file.readable()
        assert file.seekable()
        assert not file.writable()
        for offset, whence in [(3, 0), (4, 1), (-2, 1), (-5, 2), (0, 2), (99, 0), (0, 0), (60, 0)]:
            assert file.seek(offset, whence) == whole.seek(offset, whence)
            assert file.tell() == whole.tell()
            assert file.read(7) == whole.read(7)
        file.seek(0)
        assert file.readlines() == reader.read_bytes().splitlines(keepends=True)
        with pytest.raises(ValueError, match="before the start"):
            file.seek(-1)
        assert file.seek(2) == 2
    with pytest.raises(ValueError, match="closed"):
        file.read()


def test_a_file_can_be_read_as_text(store: Store) -> None:
    with chunks_of(store, 3):
        reader = store.spool.write("c", "\ufeffé€\r\n😀\n")
    with io.TextIOWrapper(reader.open(), encoding="utf-8-sig", newline="\n") as file:
        assert list(file) == ["é€\r\n", "😀\n"]


def test_a_file_can_be_a_response(reader: SpoolReader) -> None:
    response = FileResponse(reader.open(), filename="lines.txt")
    assert response["Content-Length"] == str(reader.byte_length)
    assert b"".join(response) == reader.read_bytes()
    response.close()


def test_the_asynchronous_form_gives_pieces(reader: SpoolReader) -> None:
    async def pieces() -> list[bytes]:
        return [piece async for piece in reader.aopen()]

    found = async_to_sync(pieces)()
    assert len(found) > 1
    assert b"".join(found) == reader.read_bytes()


def test_readers_of_one_loop_do_not_disturb_each_other(reader: SpoolReader) -> None:
    async def both() -> list[Any]:
        return await asyncio.gather(*(reader.aline(index) for index in range(11)), reader.aread_all())

    *lines, text = async_to_sync(both)()
    assert "\n".join(lines) == text


# -- bytes that are gone ----------------------------------------------------------------------------------------------


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
