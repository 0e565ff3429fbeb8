"""spool: what can be written, and what a source that fails or pauses leaves behind."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.files.base import ContentFile
from django.core.files.uploadedfile import SimpleUploadedFile

from ... import conf
from ...exceptions import UploadLapsed, ValueNotSerializable
from ...store import Store
from .base import Conformance, later, purge
from .bodies import after_the_lease, chunks_of
from .calling import Call

BODY = b"".join(b"line %d\n" % number for number in range(60))


class Broken(Exception):
    """Be what a source fails with."""


def in_pieces(size: int) -> Iterator[bytes]:
    return (BODY[start : start + size] for start in range(0, len(BODY), size))


def breaking(after: int) -> Iterator[bytes]:
    yield from list(in_pieces(10))[:after]
    raise Broken


class FailingFile(io.RawIOBase):
    """Be a file that breaks off after some pieces."""

    left = 20

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.left -= 1
        if not self.left:
            raise Broken
        buffer[:10] = b"0123456789"
        return 10


def reused() -> Iterator[bytearray]:
    """Give every piece in one and the same buffer, as fast readers do."""
    buffer = bytearray()
    for piece in in_pieces(11):
        buffer[:] = piece
        yield buffer


async def asynchronous(*items: Any) -> AsyncGenerator[Any]:
    for item in items:
        await asyncio.sleep(0)
        if isinstance(item, BaseException):
            raise item
        yield item


async def close(source: AsyncGenerator[Any]) -> None:
    await source.aclose()


class UploadConformance(Conformance):
    """Hold a backend to the rules of ``store.spool.write``."""

    @pytest.fixture(params=[65_536, 7], ids=["one-chunk", "many-chunks"], autouse=True)
    def chunk_size(self, request: pytest.FixtureRequest, store: Store) -> Iterator[int]:
        """Run every case with bodies that are written in one step, and with the same bodies piece by piece."""
        with chunks_of(store, request.param):
            yield request.param

    # -- sources ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("size", [1, 7, 8, 100, 112, 1000])
    def test_an_iterable_of_bytes(self, store: Store, call: Call, size: int) -> None:
        reader = call(store.spool.write, "c", in_pieces(size))
        assert call(reader.read_bytes) == BODY
        assert reader.line_count == 61
        again = call(store.spool.read, "c")
        assert again == reader

    @pytest.mark.parametrize("kind", ["list", "item", "iterator", "items", "file"])
    def test_no_bytes_at_all(self, store: Store, call: Call, kind: str) -> None:
        sources: dict[str, Any] = {
            "list": [], "item": [b""], "iterator": iter([]), "items": [b"", bytearray(), memoryview(b"")],
            "file": io.BytesIO(),
        }  # fmt: skip
        reader = call(store.spool.write, "c", sources[kind])
        assert (reader.byte_length, reader.line_count) == (0, 0)
        assert call(reader.lines) == []

    def test_items_may_be_any_kind_of_bytes(self, store: Store, call: Call) -> None:
        reader = call(store.spool.write, "c", [b"a", bytearray(b"b"), memoryview(b"cd")])
        assert call(reader.read_bytes) == b"abcd"

    def test_a_buffer_may_be_reused_between_items(self, store: Store, call: Call) -> None:
        assert call(call(store.spool.write, "c", reused()).read_bytes) == BODY

    def test_a_binary_file_is_read_from_where_it_stands(self, store: Store, call: Call, tmp_path: Path) -> None:
        path = tmp_path / "body"
        path.write_bytes(BODY)
        with path.open("rb") as file:
            file.seek(5)
            assert call(call(store.spool.write, "c", file).read_bytes) == BODY[5:]
            assert not file.closed
        with path.open("rb", buffering=0) as raw, tempfile.SpooledTemporaryFile() as spooled:
            assert call(call(store.spool.write, "c", raw).read_bytes) == BODY
            spooled.write(BODY)
            spooled.seek(0)
            assert call(call(store.spool.write, "c", spooled).read_bytes) == BODY
        for file_of_django in (ContentFile(BODY), SimpleUploadedFile("name", BODY)):
            assert call(call(store.spool.write, "c", file_of_django).read_bytes) == BODY

    def test_a_reader_can_be_spooled_again(self, store: Store, call: Call) -> None:
        reader = call(store.spool.write, "c", BODY)
        with reader.open() as file:
            assert call(call(store.spool.write, "c", file).read_bytes) == BODY

    def test_an_asynchronous_iterable(self, store: Store) -> None:
        reader = async_to_sync(store.spool.awrite)("c", asynchronous(*in_pieces(13)))
        assert reader.read_bytes() == BODY

    def test_an_asynchronous_iterable_needs_the_asynchronous_form(self, store: Store) -> None:
        source = asynchronous(b"a")
        with pytest.raises(ValueNotSerializable, match=r"awrite\(\)"):
            store.spool.write("c", source)
        async_to_sync(close)(source)
        assert store.spool.size() == 0

    @pytest.mark.parametrize(
        ("data", "match"),
        [
            ("a\ud83d", "surrogate.*errors="),
            (io.StringIO("text"), "text file.*binary mode"),
            (ContentFile("text"), "str, not bytes"),
            (None, "NoneType"),
            (7, "int"),
            (True, "bool"),
            ({"a": 1}, "dict"),
            (["text"], r"data\[0\]: it is a str, not bytes"),
            ([b"a", 7], r"data\[1\]: it is a int"),
            (range(3), r"data\[0\]: it is a int"),
        ],
    )
    def test_other_data_is_refused_and_nothing_is_written(
        self, store: Store, call: Call, data: Any, match: str
    ) -> None:
        old = call(store.spool.write, "c", "old")
        with pytest.raises(ValueNotSerializable, match=match) as caught:
            call(store.spool.write, "c", data)
        assert isinstance(caught.value, TypeError)
        assert call(store.spool.read, "c") == old
        assert call(store.spool.size) == 1

    # -- sources that fail --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("after", [0, 1, 20, 48])
    def test_a_source_that_fails_leaves_the_old_entry(self, store: Store, call: Call, after: int) -> None:
        old = call(store.spool.write, "c", "old")
        for call_id in ("c", "new"):
            with pytest.raises(Broken):
                call(store.spool.write, call_id, breaking(after))
        purge(store)
        assert call(store.spool.read, "c") == old
        assert call(old.read_all) == "old"
        assert call(store.spool.read, "new") is None
        assert call(store.spool.size) == 1

    def test_an_item_that_is_no_bytes_leaves_the_old_entry(self, store: Store, call: Call) -> None:
        old = call(store.spool.write, "c", "old")
        with pytest.raises(ValueNotSerializable, match=r"data\[40\]"):
            call(store.spool.write, "c", [*in_pieces(12), "text"])  # type: ignore[list-item]
        assert call(store.spool.read, "c") == old

    def test_a_file_that_fails_leaves_the_old_entry(self, store: Store, call: Call) -> None:
        old = call(store.spool.write, "c", "old")
        with pytest.raises(Broken):
            call(store.spool.write, "c", FailingFile())
        assert call(store.spool.read, "c") == old

    def test_an_asynchronous_source_that_fails_leaves_the_old_entry(self, store: Store) -> None:
        old = store.spool.write("c", "old")
        with pytest.raises(Broken):
            async_to_sync(store.spool.awrite)("c", asynchronous(*in_pieces(10), Broken()))
        assert store.spool.read("c") == old

    def test_a_cancelled_upload_leaves_the_old_entry(self, store: Store) -> None:
        old = store.spool.write("c", "old")

        async def stuck() -> AsyncIterator[bytes]:
            for piece in in_pieces(10):
                yield piece
            begun.set()
            await asyncio.Event().wait()

        async def cancel() -> None:
            upload = asyncio.ensure_future(store.spool.awrite("c", stuck()))
            await begun.wait()
            upload.cancel()
            with pytest.raises(asyncio.CancelledError):
                await upload

        begun = asyncio.Event()
        async_to_sync(cancel)()
        purge(store)
        assert store.spool.read("c") == old
        assert store.spool.size() == 1

    # -- uploads on their way -----------------------------------------------------------------------------------------

    def test_what_is_being_written_is_not_seen(self, store: Store, call: Call) -> None:
        old = call(store.spool.write, "c", "old")
        seen = []

        def source() -> Iterator[bytes]:
            for piece in in_pieces(40):
                yield piece
                seen.append((store.spool.read("c"), store.spool.read("new"), store.spool.size()))

        for call_id in ("c", "new"):
            reader = call(store.spool.write, call_id, source())
            assert seen
            if call_id == "c":
                assert set(seen) == {(old, None, 1)}
            assert call(reader.read_bytes) == BODY
            assert call(store.spool.read, call_id) == reader
        assert call(store.spool.size) == 2

    def test_an_upload_outlives_a_purge_while_its_pieces_come_in_time(self, store: Store, call: Call) -> None:
        most = conf.get().spool_lease / 1000

        def slow() -> Iterator[bytes]:
            for piece in in_pieces(112):  # each item is 16 chunks, written before the next one is asked for
                later(store, most * 2 / 3)  # without a renewal the second ends the lease
                purge(store)
                yield piece

        assert call(call(store.spool.write, "c", slow()).read_bytes) == BODY

    def test_an_upload_that_pauses_too_long_is_purged_and_says_so(
        self, store: Store, call: Call, chunk_size: int
    ) -> None:
        old = call(store.spool.write, "c", "old")

        def slow() -> Iterator[bytes]:
            yield BODY
            after_the_lease(store)
            yield b"more"

        if chunk_size > 7:  # nothing was written before all had come
            assert call(call(store.spool.write, "c", slow()).read_bytes) == BODY + b"more"
            return
        with pytest.raises(UploadLapsed, match="SPOOL_LEASE"):
            call(store.spool.write, "c", slow())
        assert call(store.spool.read, "c") == old
        assert call(old.read_all) == "old"

    def test_an_upload_of_a_dead_process_leaves_the_old_entry(self, store: Store) -> None:
        old = store.spool.write("c", "old")
        flow = store.spool._write("c", iter([BODY, BODY, b"more"]))
        reply, action = None, next(flow)
        for _ in range(3):  # the first piece, the begin of the upload, the next piece: there it dies
            reply = action.run()
            try:
                action = flow.send(reply)
            except StopIteration:  # it was written in one step
                assert store.spool.delete("c") is True
                old = store.spool.write("c", "old")
                break
        flow.close()
        after_the_lease(store)
        assert store.spool.read("c") == old
        assert store.spool.size() == 1
