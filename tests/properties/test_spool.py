"""spool against bytes in memory: every version that was ever written, and what its readers should show."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, invariant, multiple, rule

from django_statestore.contracts.reader import SpoolReader
from django_statestore.contracts.spool import SpoolPrimitives
from django_statestore.exceptions import BlobGone, UploadLapsed

from .grounds import Ground
from .machine import FacetMachine, Model, check, has_rows, keys, places

CHUNK = 8
PIECE = 16 * CHUNK  # what is longer is not written in one step
GRACE, LEASE = 3.5, 2.5
LAPSED = 3

PARTS = [b"a", b"\n", b"\n\n", b"\r\n", "é€😀".encode(), b"\xff", b"\xef\xbb\xbf", b"\0", b"b" * CHUNK, b"c" * 70]
bodies = st.lists(st.sampled_from(PARTS), max_size=5).map(b"".join)
short = st.integers(0, 20)
bounds = st.none() | short

KINDS: dict[str, Callable[[bytes], Any]] = {
    "bytes": lambda body: body,
    "bytearray": bytearray,
    "file": io.BytesIO,
    "pieces": lambda body: [body[:5], b"", body[5:]],
}


@dataclass(eq=False)
class Version:
    """Be one written body; it is dropped when no entry names it any more, and later perhaps purged."""

    body: bytes
    dropped_at: float | None = None
    purged: bool = False

    @property
    def text(self) -> str:
        return self.body.decode("utf-8-sig", "replace")

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n") if self.body else []


class SpoolModel(Model):
    def __init__(self) -> None:
        super().__init__()
        self.versions: list[Version] = []
        self.entries: dict[str, Version] = {}
        self.uploads: list[tuple[int, float]] = []
        """The chunks that each unfinished upload has left, and the end of its lease."""

    def write(self, key: str, body: bytes) -> Version:
        self.drop(key)
        self.entries[key] = Version(body)
        self.versions.append(self.entries[key])
        return self.entries[key]

    def drop(self, key: str) -> None:
        if key in self.entries:
            self.entries.pop(key).dropped_at = self.now

    def living(self) -> dict[str, tuple[int, float | None]]:
        return {key: (len(version.body), None) for key, version in self.entries.items()}

    def clear(self) -> None:
        for key in [*self.entries]:
            self.drop(key)

    def purge(self) -> None:
        for version in self.versions:
            if version.dropped_at is not None and version.dropped_at + GRACE <= self.now:
                version.purged = True
        self.uploads = [upload for upload in self.uploads if upload[1] > self.now]

    def chunks(self) -> list[int]:
        """Return how many chunks each version and upload has that is still there."""
        return sorted(
            [chunks_in(version.body) for version in self.versions if not version.purged]
            + [chunks for chunks, _ in self.uploads]
        )


@dataclass
class Reading:
    """Be a reader of a version, and where it was written."""

    at: int
    reader: SpoolReader
    version: Version


class Stumbled(Exception):
    """Be what a source raises half-way."""


class SpoolMachine(FacetMachine[SpoolModel]):
    facet = "spool"
    orphans = "select count(*) from statestore_spool_chunk where blob_id not in (select id from statestore_spool_blob)"
    model = SpoolModel
    readings: Bundle[Reading] = Bundle("readings")

    # -- writing ------------------------------------------------------------------------------------------------------

    @rule(target=readings, at=places, key=keys, body=bodies, kind=st.sampled_from([*KINDS]))
    def write(self, at: int, key: str, body: bytes, kind: str) -> Any:
        facet, model = self.at(at)
        return Reading(at, self.call(facet.write, key, KINDS[kind](body)), model.write(key, body))

    @rule(target=readings, at=places, key=keys, text=st.text("a\né€😀\ufeff\r\0", max_size=12))
    def write_text(self, at: int, key: str, text: str) -> Any:
        facet, model = self.at(at)
        return Reading(at, self.call(facet.write, key, text), model.write(key, text.encode()))

    @rule(at=places, key=keys, first=st.sampled_from([0, 5, PIECE, 2 * PIECE + 3]))
    def fail_half_way(self, at: int, key: str, first: int) -> None:
        def source() -> Iterator[bytes]:
            yield b"x" * first
            raise Stumbled

        facet, model = self.at(at)
        with pytest.raises(Stumbled):
            self.call(facet.write, key, source())
        if first >= PIECE:  # what was begun is left to the next purge, however soon it comes
            model.uploads.append((first // PIECE * 16, model.now))

    @rule(at=places, key=keys)
    def die_half_way(self, at: int, key: str) -> None:
        facet, model = self.at(at)
        flow = facet._write(key, [b"x" * PIECE, b"more"])
        begun = flow.send(next(flow).run()).run()
        flow.send(begun)
        flow.close()
        model.uploads.append((16, model.now + LEASE))

    @rule(
        target=readings,
        at=places,
        key=keys,
        body=bodies,
        meanwhile=st.sampled_from(["nothing", "write", "delete", "clear", "age", "purge", "age and purge"]),
    )
    def write_slowly(self, at: int, key: str, body: bytes, meanwhile: str) -> Any:
        facet, model = self.at(at)
        first = b"\n-" * PIECE

        def source() -> Iterator[bytes]:
            yield first
            if meanwhile == "write":
                facet.write(key, body)
                model.write(key, body)
            elif meanwhile == "delete":
                assert facet.delete(key) is (key in model.entries)
                model.drop(key)
            elif meanwhile == "clear":
                facet.clear()
                model.clear()
            if "age" in meanwhile:
                self.pass_by(self.places[at], LAPSED)
            if "purge" in meanwhile:
                self.purge()
            yield body

        if meanwhile == "age and purge" or (meanwhile == "age" and self.ground.purges_itself):
            with pytest.raises(UploadLapsed):
                self.call(facet.write, key, source())
            return multiple()
        return Reading(at, self.call(facet.write, key, source()), model.write(key, first + body))

    @rule(at=places, key=keys)
    def delete(self, at: int, key: str) -> None:
        facet, model = self.at(at)
        assert self.call(facet.delete, key) is (key in model.entries)
        model.drop(key)

    # -- reading ------------------------------------------------------------------------------------------------------

    @rule(target=readings, at=places, key=keys)
    def read(self, at: int, key: str) -> Any:
        facet, model = self.at(at)
        reader: SpoolReader | None = self.call(facet.read, key)
        version = model.entries.get(key)
        assert (reader is None) is (version is None)
        if reader is None or version is None:
            return multiple()
        assert reader.call_id == key
        return Reading(at, reader, version)

    @rule(target=readings, reading=readings, at=places)
    def open(self, reading: Reading, at: int) -> Any:
        facet, _ = self.at(at)
        if at != reading.at or reading.version.purged:
            with pytest.raises(BlobGone):
                self.call(facet.open, reading.reader.ref)
            return multiple()
        again = self.call(facet.open, reading.reader.ref)
        assert again == reading.reader
        return Reading(at, again, reading.version)

    @rule(reading=readings, start=short, stop=bounds)
    def look(self, reading: Reading, start: int, stop: int | None) -> None:
        self.at(reading.at)
        reader, version = reading.reader, reading.version
        lines, body = version.lines[start:stop], version.body[start:stop]
        self.shows(version, lines, bool(lines), reader.lines, start, stop)
        self.shows(version, body, bool(body), reader.read_bytes, start, stop)
        self.shows(version, version.text, bool(version.body), reader.read_all)
        there = start < len(version.lines)
        self.shows(version, version.lines[start] if there else None, there, reader.line, start)

    @rule(reading=readings, start=short)
    def open_as_file(self, reading: Reading, start: int) -> None:
        def read() -> bytes:
            with reading.reader.open() as file:
                file.seek(start)
                return file.read()

        self.at(reading.at)
        body = reading.version.body[start:]
        if reading.version.purged and body:
            with pytest.raises(BlobGone):
                read()
        else:
            assert read() == body

    def shows(self, version: Version, expected: object, asks: bool, operation: Callable[..., Any], *args: Any) -> None:
        """Check what a reader answers; one whose bytes are gone says so, where it has to ask for any."""
        if version.purged and asks:
            with pytest.raises(BlobGone):
                self.call(operation, *args)
        else:
            assert self.call(operation, *args) == expected

    # -- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def every_entry_shows_what_was_written_last(self) -> None:
        for place in self.places:
            facet = self.facet_of(place)
            for key, version in place.model.entries.items():
                reader = facet.read(key)
                assert (reader.byte_length, reader.line_count) == (len(version.body), len(version.lines)), key
                assert reader.read_bytes() == version.body, key

    @invariant()
    @has_rows
    def every_version_is_whole_and_one_an_entry_is_live(self) -> None:
        blobs = self.rows(
            "select namespace, lease_until is null and dropped_at is null, byte_length, id from statestore_spool_blob"
        )
        chunks = self.rows(
            "select namespace, c.id from statestore_spool_chunk c join statestore_spool_blob b on b.id = c.blob_id"
        )
        for place in self.places:
            live = sorted(row[1] for row in blobs[place.namespace] if row[0])
            assert live == sorted(len(version.body) for version in place.model.entries.values())
            expected = place.model.chunks()
            assert len(blobs[place.namespace]) == len(expected)
            assert len(chunks[place.namespace]) == sum(expected)


def chunks_in(body: bytes) -> int:
    return -(-len(body) // CHUNK)


@pytest.mark.django_db(databases="__all__")
def test_spool_agrees_with_bytes_in_memory(ground: Ground) -> None:
    durations = {"SPOOL_GRACE": timedelta(minutes=GRACE), "SPOOL_LEASE": timedelta(minutes=LEASE)}
    with override_settings(STATESTORE=durations), pytest.MonkeyPatch.context() as patch:
        patch.setattr(SpoolPrimitives, "spool_chunk_size", CHUNK)
        check(SpoolMachine, ground)
