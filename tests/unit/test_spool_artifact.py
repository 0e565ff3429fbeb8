"""SpooledArtifact: head, tail, cat, grep and as_string, and patterns that must not hang anybody."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from django_statestore.contracts.artifact import SpooledArtifact
from django_statestore.exceptions import InvalidArgument
from django_statestore.store import Store
from tests.calling import Call

from .spools import chunks_of

LINES = [f"{number} {'even' if number % 2 == 0 else 'odd'}" for number in range(25)]


@pytest.fixture(params=[65_536, 6], ids=["one-chunk", "many-chunks"])
def artifact(store: Store, call: Call, request: pytest.FixtureRequest) -> Iterator[SpooledArtifact]:
    with chunks_of(store, request.param):
        yield SpooledArtifact(call(store.spool.write, "c", "\n".join(LINES)))


def test_ten_lines_by_default(artifact: SpooledArtifact, call: Call) -> None:
    assert call(artifact.head) == LINES[:10]
    assert call(artifact.tail) == LINES[-10:]
    assert call(artifact.cat) == LINES


@pytest.mark.parametrize("n", [1, 3, 24, 25, 26, 10**12])
def test_head_and_tail(artifact: SpooledArtifact, call: Call, n: int) -> None:
    assert call(artifact.head, n) == LINES[:n]
    assert call(artifact.tail, n) == LINES[-n:]


@pytest.mark.parametrize("n", [0, -1, -(10**12)])
def test_head_and_tail_of_nothing(artifact: SpooledArtifact, call: Call, n: int) -> None:
    assert call(artifact.head, n) == call(artifact.tail, n) == []


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (2, 5, LINES[2:5]),
        (-3, 2, LINES[:2]),
        (3, None, LINES[3:]),
        (20, 99, LINES[20:]),
        (25, 99, []),
        (99, None, []),
        (0, -1, []),
        (-5, -1, []),
        (5, 5, []),
        (7, 3, []),
    ],
)
def test_cat(artifact: SpooledArtifact, call: Call, start: int, stop: int | None, expected: list[str]) -> None:
    assert call(artifact.cat, start, stop) == expected


def test_as_string_is_the_text_with_its_line_ends(store: Store, call: Call) -> None:
    text = "a\r\nb\n\n"
    assert call(SpooledArtifact(call(store.spool.write, "c", text)).as_string) == text


def test_an_empty_body(store: Store, call: Call) -> None:
    artifact = SpooledArtifact(call(store.spool.write, "c", ""))
    assert (artifact.byte_length, artifact.line_count) == (0, 0)
    assert call(artifact.head) == call(artifact.tail) == call(artifact.cat) == call(artifact.grep, "") == []
    assert call(artifact.as_string) == ""


def test_grep_finds_whole_lines_in_order(artifact: SpooledArtifact, call: Call) -> None:
    assert call(artifact.grep, "2") == [line for line in LINES if "2" in line]
    assert call(artifact.grep, "nothing") == []
    assert call(artifact.grep, "") == LINES


def test_grep_stops_when_it_has_enough(artifact: SpooledArtifact, call: Call) -> None:
    assert call(artifact.grep, "odd", 3) == ["1 odd", "3 odd", "5 odd"]
    assert call(artifact.grep, "odd", 0) == []
    assert call(artifact.grep, "odd", 99) == [line for line in LINES if "odd" in line]
    with pytest.raises(InvalidArgument, match="max_matches"):
        call(artifact.grep, "odd", -1)
    with pytest.raises(TypeError, match="max_matches"):
        call(artifact.grep, "odd", True)


def test_text_is_no_regular_expression(store: Store, call: Call) -> None:
    artifact = SpooledArtifact(call(store.spool.write, "c", "a.c\nabc\n[x]*\n(a+)+$\n\\d"))
    for pattern in ("a.c", "[x]*", "(a+)+$", "\\d"):
        assert call(artifact.grep, pattern) == [pattern]


def test_a_hostile_pattern_takes_no_time(store: Store, call: Call) -> None:
    artifact = SpooledArtifact(call(store.spool.write, "c", "a" * 100_000 + "!\n" + "ab" * 100_000))
    began = time.process_time()
    for pattern in ("(a+)+$", "(a|a)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 50_000 + "b", "ab" * 50_000 + "a!"):
        assert call(artifact.grep, pattern) == []
        assert call(artifact.grep, pattern, ignore_case=True) == []
    assert time.process_time() - began < 5


def test_case_is_ignored_by_folding(store: Store, call: Call) -> None:
    artifact = SpooledArtifact(call(store.spool.write, "c", "Straße\nSTRASSE\nÉté\nnothing"))
    assert call(artifact.grep, "strasse", ignore_case=True) == ["Straße", "STRASSE"]
    assert call(artifact.grep, "éTÉ", ignore_case=True) == ["Été"]
    assert call(artifact.grep, "strasse") == []


def test_a_compiled_pattern_is_searched_in_each_line(artifact: SpooledArtifact, call: Call) -> None:
    assert call(artifact.grep, re.compile(r"^1\d? ")) == [line for line in LINES if line.startswith("1")]
    assert call(artifact.grep, re.compile("ODD$", re.IGNORECASE), 2) == ["1 odd", "3 odd"]


def test_anything_that_searches_will_do(artifact: SpooledArtifact, call: Call) -> None:
    class Linear:
        def search(self, string: str, /) -> object:
            return string.endswith("7 odd") or None

    assert call(artifact.grep, Linear()) == ["7 odd", "17 odd"]


@pytest.mark.parametrize("pattern", [None, b"odd", 7, re.compile(b"odd")])
def test_what_is_no_pattern_is_refused(artifact: SpooledArtifact, call: Call, pattern: Any) -> None:
    with pytest.raises(TypeError, match="pattern"):
        call(artifact.grep, pattern)


def test_ignore_case_goes_with_text(artifact: SpooledArtifact, call: Call) -> None:
    with pytest.raises(InvalidArgument, match="ignore_case"):
        call(artifact.grep, re.compile("odd"), ignore_case=True)


def test_a_line_across_many_pieces_is_found_once(store: Store, call: Call) -> None:
    with chunks_of(store, 3):  # a piece is 48 bytes
        body = "x" * 200 + "needle" + "y" * 200 + "\nshort\n" + "z" * 100 + "needle"
        artifact = SpooledArtifact(call(store.spool.write, "c", body))
    first, _, last = body.split("\n")
    assert call(artifact.grep, "needle") == [first, last]
    assert call(artifact.grep, "xneedley") == [first]
