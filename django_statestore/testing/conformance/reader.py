"""spool: lines, ranges and files of a reader, and the queries of an artifact, agree with plain Python."""

from __future__ import annotations

import asyncio
import io
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync
from django.http import FileResponse

from ...contracts.artifact import SpooledArtifact
from ...contracts.reader import SpoolReader
from ...exceptions import InvalidArgument
from ...store import Store
from .base import Conformance
from .bodies import Model, chunks_of, random_bodies
from .calling import Call

CHUNK = 65_536
BORDERS = {
    "line-end-is-the-last-byte": b"a" * (CHUNK - 1) + b"\nsecond",
    "line-end-is-the-first-byte": b"a" * CHUNK + b"\nsecond",
    "line-ends-on-both-sides": b"a" * (CHUNK - 1) + b"\n\n\nlast",
    "two-bytes-cut": b"a" * (CHUNK - 1) + "\u00e9\nb".encode(),
    "three-bytes-cut-after-one": b"a" * (CHUNK - 1) + "\u20ac\nb".encode(),
    "three-bytes-cut-after-two": b"a" * (CHUNK - 2) + "\u20ac\nb".encode(),
    "four-bytes-cut-in-the-middle": b"a" * (CHUNK - 2) + "\U0001f600\nb".encode(),
    "exactly-one-chunk": b"a" * (CHUNK - 1) + b"\n",
    "exactly-two-chunks": b"a\n" * CHUNK,
    "exactly-one-piece": b"0123456789abcde\n" * CHUNK,
    "one-long-line": "\u00e9\u20ac\U0001f600".encode() * 150_000,
    "many-pieces": b"".join(b"%d\n" % number for number in range(200_000)),
    "only-line-ends": b"\n" * (2 * CHUNK + 1),
}
LINES = [f"{number} {'even' if number % 2 == 0 else 'odd'}" for number in range(25)]


class ReaderConformance(Conformance):
    """Hold a backend to the rules of what ``store.spool`` gives to read from."""

    @pytest.fixture
    def reader(self, store: Store, call: Call) -> Iterator[SpoolReader]:
        with chunks_of(store, 5):
            yield call(store.spool.write, "c", "".join(f"line {number}\n" for number in range(10)))

    # -- against plain Python -----------------------------------------------------------------------------------------

    def test_a_reader_agrees_with_the_whole_bytes(self, store: Store, call: Call) -> None:
        for chance, body in random_bodies(25):
            model = Model(body)
            with chunks_of(store, chance.randint(1, 9)):
                reader = call(store.spool.write, "c", body)
            assert (reader.byte_length, reader.line_count) == (len(body), len(model.lines))
            assert call(reader.read_bytes) == body
            assert call(reader.read_all) == model.text
            assert call(reader.lines) == model.lines
            lines = [call(reader.line, index) for index in range(-1, len(model.lines) + 1)]
            assert lines == [None, *model.lines, None]
            for _ in range(5):
                start, stop = chance.randrange(len(body) + 2), chance.choice([None, chance.randrange(len(body) + 2)])
                assert call(reader.read_bytes, start, stop) == body[start:stop]
                assert call(reader.lines, start, stop) == model.lines[start:stop]
            with reader.open() as file:
                assert b"".join(iter(lambda: file.read(3), b"")) == body

    def test_an_artifact_agrees_with_the_whole_bytes(self, store: Store, call: Call) -> None:
        for chance, body in random_bodies(25):
            model = Model(body)
            with chunks_of(store, chance.randint(1, 9)):
                artifact = SpooledArtifact(call(store.spool.write, "c", body))
            n, start, stop = chance.randint(-2, 45), chance.randint(-3, 45), chance.choice([None, -1, 3, 45])
            assert (artifact.byte_length, artifact.line_count) == (len(body), len(model.lines))
            assert call(artifact.head, n) == model.lines[: max(n, 0)]
            assert call(artifact.tail, n) == (model.lines[-n:] if n > 0 else [])
            assert (
                call(artifact.cat, start, stop) == model.lines[max(start, 0) : None if stop is None else max(stop, 0)]
            )
            assert call(artifact.as_string) == model.text
            pattern = chance.choice(["", "a", "\u00e9", "\U0001f600", "\ufffd", "\r", "\0"])
            expected = [line for line in model.lines if pattern in line]
            assert call(artifact.grep, pattern) == expected
            assert call(artifact.grep, pattern, max(n, 0)) == expected[: max(n, 0)]

    @pytest.mark.parametrize("name", BORDERS)
    def test_borders_of_chunks_do_not_show(self, store: Store, call: Call, name: str) -> None:
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

    # -- bounds -------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("index", [-1, -11, 11, 12, 10**30])
    def test_a_line_out_of_range_is_none(self, reader: SpoolReader, call: Call, index: int) -> None:
        assert call(reader.line, index) is None

    def test_the_last_line_is_empty(self, reader: SpoolReader, call: Call) -> None:
        assert call(reader.line, 10) == ""

    @pytest.mark.parametrize("index", [True, False, 1.0, 1.5, "1", None])
    def test_an_index_is_an_int(self, reader: SpoolReader, call: Call, index: Any) -> None:
        artifact = SpooledArtifact(reader)
        for method in (reader.line, reader.lines, reader.read_bytes, artifact.head, artifact.tail, artifact.cat):
            with pytest.raises(TypeError, match="not an int"):
                call(cast(Callable[[Any], object], method), index)
        if index is not None:  # which stands for the end
            for slicer in (reader.lines, reader.read_bytes, artifact.cat):
                with pytest.raises(TypeError, match="stop is a"):
                    call(cast(Callable[[int, Any], object], slicer), 0, index)

    def test_ranges_are_half_open_and_clamped(self, reader: SpoolReader, call: Call) -> None:
        assert call(reader.lines, 1, 3) == ["line 1", "line 2"]
        assert call(reader.lines, 9, 99) == ["line 9", ""]
        assert call(reader.lines, 11) == call(reader.lines, 99, 100) == call(reader.lines, 5, 5) == []
        assert call(reader.lines, 7, 3) == call(reader.lines, 3, 0) == []
        assert call(reader.read_bytes, 68, 99) == b"9\n"
        assert call(reader.read_bytes, 70) == call(reader.read_bytes, 99) == call(reader.read_bytes, 7, 3) == b""
        assert call(reader.read_bytes, 0, 0) == b""

    @pytest.mark.parametrize("bounds", [(-1,), (0, -1), (-2, -1)])
    def test_a_negative_bound_is_refused(self, reader: SpoolReader, call: Call, bounds: tuple[int, ...]) -> None:
        for method in (reader.lines, reader.read_bytes):
            with pytest.raises(InvalidArgument, match="negative"):
                call(cast(Callable[..., object], method), *bounds)

    # -- files --------------------------------------------------------------------------------------------------------

    def test_a_file_is_seekable(self, reader: SpoolReader) -> None:
        whole = io.BytesIO(reader.read_bytes())
        with reader.open() as file:
            assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
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

    def test_a_file_can_be_read_as_text(self, store: Store) -> None:
        with chunks_of(store, 3):
            reader = store.spool.write("c", "\ufeff\u00e9\u20ac\r\n\U0001f600\n")
        with io.TextIOWrapper(reader.open(), encoding="utf-8-sig", newline="\n") as file:
            assert list(file) == ["\u00e9\u20ac\r\n", "\U0001f600\n"]

    def test_a_file_can_be_a_response(self, reader: SpoolReader) -> None:
        response = FileResponse(reader.open(), filename="lines.txt")
        assert response["Content-Length"] == str(reader.byte_length)
        assert b"".join(response) == reader.read_bytes()
        response.close()

    def test_the_asynchronous_form_gives_pieces(self, reader: SpoolReader) -> None:
        async def pieces() -> list[bytes]:
            return [piece async for piece in reader.aopen()]

        assert b"".join(async_to_sync(pieces)()) == reader.read_bytes()

    def test_readers_of_one_loop_do_not_disturb_each_other(self, reader: SpoolReader) -> None:
        async def both() -> list[Any]:
            return await asyncio.gather(*(reader.aline(index) for index in range(11)), reader.aread_all())

        *lines, text = async_to_sync(both)()
        assert "\n".join(lines) == text


class ArtifactConformance(Conformance):
    """Hold a backend to the rules of ``SpooledArtifact``."""

    @pytest.fixture(params=[65_536, 6], ids=["one-chunk", "many-chunks"])
    def artifact(self, store: Store, call: Call, request: pytest.FixtureRequest) -> Iterator[SpooledArtifact]:
        with chunks_of(store, request.param):
            yield SpooledArtifact(call(store.spool.write, "c", "\n".join(LINES)))

    def test_ten_lines_by_default(self, artifact: SpooledArtifact, call: Call) -> None:
        assert call(artifact.head) == LINES[:10]
        assert call(artifact.tail) == LINES[-10:]
        assert call(artifact.cat) == LINES

    @pytest.mark.parametrize("n", [1, 3, 24, 25, 26, 10**12])
    def test_head_and_tail(self, artifact: SpooledArtifact, call: Call, n: int) -> None:
        assert call(artifact.head, n) == LINES[:n]
        assert call(artifact.tail, n) == LINES[-n:]

    @pytest.mark.parametrize("n", [0, -1, -(10**12)])
    def test_head_and_tail_of_nothing(self, artifact: SpooledArtifact, call: Call, n: int) -> None:
        assert call(artifact.head, n) == call(artifact.tail, n) == []

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [
            (2, 5, LINES[2:5]), (-3, 2, LINES[:2]), (3, None, LINES[3:]), (20, 99, LINES[20:]), (25, 99, []),
            (99, None, []), (0, -1, []), (-5, -1, []), (5, 5, []), (7, 3, []),
        ],
    )  # fmt: skip
    def test_cat_is_half_open_and_clamped(
        self, artifact: SpooledArtifact, call: Call, start: int, stop: int | None, expected: list[str]
    ) -> None:
        assert call(artifact.cat, start, stop) == expected

    def test_as_string_is_the_text_with_its_line_ends(self, store: Store, call: Call) -> None:
        text = "a\r\nb\n\n"
        assert call(SpooledArtifact(call(store.spool.write, "c", text)).as_string) == text

    def test_an_empty_body(self, store: Store, call: Call) -> None:
        artifact = SpooledArtifact(call(store.spool.write, "c", ""))
        assert (artifact.byte_length, artifact.line_count) == (0, 0)
        assert call(artifact.head) == call(artifact.tail) == call(artifact.cat) == call(artifact.grep, "") == []
        assert call(artifact.as_string) == ""

    def test_grep_finds_whole_lines_in_order(self, artifact: SpooledArtifact, call: Call) -> None:
        assert call(artifact.grep, "2") == [line for line in LINES if "2" in line]
        assert call(artifact.grep, "nothing") == []
        assert call(artifact.grep, "") == LINES

    def test_grep_stops_when_it_has_enough(self, artifact: SpooledArtifact, call: Call) -> None:
        assert call(artifact.grep, "odd", 3) == ["1 odd", "3 odd", "5 odd"]
        assert call(artifact.grep, "odd", 0) == []
        assert call(artifact.grep, "odd", 99) == [line for line in LINES if "odd" in line]
        with pytest.raises(InvalidArgument, match="max_matches"):
            call(artifact.grep, "odd", -1)
        with pytest.raises(TypeError, match="max_matches"):
            call(artifact.grep, "odd", True)

    def test_text_is_no_regular_expression(self, store: Store, call: Call) -> None:
        artifact = SpooledArtifact(call(store.spool.write, "c", "a.c\nabc\n[x]*\n(a+)+$\n\\d"))
        for pattern in ("a.c", "[x]*", "(a+)+$", "\\d"):
            assert call(artifact.grep, pattern) == [pattern]

    def test_a_hostile_pattern_takes_no_time(self, store: Store, call: Call) -> None:
        artifact = SpooledArtifact(call(store.spool.write, "c", "a" * 100_000 + "!\n" + "ab" * 100_000))
        began = time.process_time()
        for pattern in ("(a+)+$", "(a|a)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 50_000 + "b", "ab" * 50_000 + "a!"):
            assert call(artifact.grep, pattern) == []
            assert call(artifact.grep, pattern, ignore_case=True) == []
        assert time.process_time() - began < 20

    def test_case_is_ignored_by_folding(self, store: Store, call: Call) -> None:
        artifact = SpooledArtifact(call(store.spool.write, "c", "Stra\u00dfe\nSTRASSE\n\u00c9t\u00e9\nnothing"))
        assert call(artifact.grep, "strasse", ignore_case=True) == ["Stra\u00dfe", "STRASSE"]
        assert call(artifact.grep, "\u00e9T\u00c9", ignore_case=True) == ["\u00c9t\u00e9"]
        assert call(artifact.grep, "strasse") == []

    def test_a_compiled_pattern_is_searched_in_each_line(self, artifact: SpooledArtifact, call: Call) -> None:
        assert call(artifact.grep, re.compile(r"^1\d? ")) == [line for line in LINES if line.startswith("1")]
        assert call(artifact.grep, re.compile("ODD$", re.IGNORECASE), 2) == ["1 odd", "3 odd"]

    def test_anything_that_searches_will_do(self, artifact: SpooledArtifact, call: Call) -> None:
        class Linear:
            def search(self, string: str, /) -> object:
                return string.endswith("7 odd") or None

        assert call(artifact.grep, Linear()) == ["7 odd", "17 odd"]

    @pytest.mark.parametrize("pattern", [None, b"odd", 7, re.compile(b"odd")])
    def test_what_is_no_pattern_is_refused(self, artifact: SpooledArtifact, call: Call, pattern: Any) -> None:
        with pytest.raises(TypeError, match="pattern"):
            call(artifact.grep, pattern)

    def test_ignore_case_goes_with_text(self, artifact: SpooledArtifact, call: Call) -> None:
        with pytest.raises(InvalidArgument, match="ignore_case"):
            call(artifact.grep, re.compile("odd"), ignore_case=True)

    def test_a_line_across_many_pieces_is_found_once(self, store: Store, call: Call) -> None:
        with chunks_of(store, 3):  # a piece is 48 bytes
            body = "x" * 200 + "needle" + "y" * 200 + "\nshort\n" + "z" * 100 + "needle"
            artifact = SpooledArtifact(call(store.spool.write, "c", body))
        first, _, last = body.split("\n")
        assert call(artifact.grep, "needle") == [first, last]
        assert call(artifact.grep, "xneedley") == [first]
