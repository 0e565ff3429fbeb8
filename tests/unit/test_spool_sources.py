"""spool: what can be written, and what a failing source leaves behind."""

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
from django.db import transaction

from django_statestore.exceptions import ValueNotSerializable
from django_statestore.store import Store
from tests.calling import Call

from .spools import chunks_of, states

BODY = b"".join(b"line %d\n" % number for number in range(60))


@pytest.fixture(params=[65_536, 7], ids=["one-chunk", "many-chunks"], autouse=True)
def chunk_size(request: pytest.FixtureRequest, store: Store) -> Iterator[int]:
    with chunks_of(store, request.param):
        yield request.param


def in_pieces(size: int) -> Iterator[bytes]:
    return (BODY[start : start + size] for start in range(0, len(BODY), size))


def reused() -> Iterator[bytearray]:
    """Give every piece in one and the same buffer, as fast readers do."""
    buffer = bytearray()
    for piece in in_pieces(11):
        buffer[:] = piece
        yield buffer


async def later(*items: Any) -> AsyncGenerator[Any]:
    for item in items:
        await asyncio.sleep(0)
        if isinstance(item, BaseException):
            raise item
        yield item


async def close(source: AsyncGenerator[Any]) -> None:
    await source.aclose()


@pytest.mark.parametrize("size", [1, 7, 8, 100, 112, 1000])
def test_an_iterable_of_bytes(store: Store, call: Call, size: int) -> None:
    reader = call(store.spool.write, "c", in_pieces(size))
    assert call(reader.read_bytes) == BODY
    assert reader.line_count == 61


@pytest.mark.parametrize(
    "data",
    [[], [b""], iter([]), [b"", b"", bytearray(), memoryview(b"")], io.BytesIO()],
    ids=["list", "item", "iterator", "items", "file"],
)
def test_no_bytes_at_all(store: Store, call: Call, data: Any) -> None:
    reader = call(store.spool.write, "c", data)
    assert (reader.byte_length, reader.line_count) == (0, 0)
    assert call(reader.lines) == []


def test_items_may_be_any_kind_of_bytes(store: Store, call: Call) -> None:
    reader = call(store.spool.write, "c", [b"a", bytearray(b"b"), memoryview(b"cd")])
    assert call(reader.read_bytes) == b"abcd"


def test_a_buffer_may_be_reused_between_items(store: Store, call: Call) -> None:
    assert call(call(store.spool.write, "c", reused()).read_bytes) == BODY


def test_a_binary_file_is_read_from_where_it_stands(store: Store, call: Call, tmp_path: Path) -> None:
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


def test_a_reader_can_be_spooled_again(store: Store, call: Call) -> None:
    reader = call(store.spool.write, "c", BODY)
    with reader.open() as file:
        assert call(call(store.spool.write, "c", file).read_bytes) == BODY


def test_an_asynchronous_iterable(store: Store) -> None:
    reader = async_to_sync(store.spool.awrite)("c", later(*in_pieces(13)))
    assert reader.read_bytes() == BODY


def test_an_asynchronous_iterable_needs_the_asynchronous_form(store: Store) -> None:
    source = later(b"a")
    with pytest.raises(ValueNotSerializable, match=r"awrite\(\)"):
        store.spool.write("c", source)
    asyncio.run(close(source))
    assert states(store) == {}


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
        ({}, "dict"),
        (["text"], r"data\[0\]: it is a str, not bytes"),
        ([b"a", 7], r"data\[1\]: it is a int"),
        (range(3), r"data\[0\]: it is a int"),
    ],
)
def test_other_data_is_refused_and_nothing_is_written(store: Store, call: Call, data: Any, match: str) -> None:
    old = call(store.spool.write, "c", "old")
    with pytest.raises(ValueNotSerializable, match=match) as caught:
        call(store.spool.write, "c", data)
    assert isinstance(caught.value, TypeError)
    assert caught.value.__cause__ is None
    assert call(store.spool.read, "c") == old
    assert states(store) == {"live": 1}


def test_a_text_file_on_disk_is_refused(store: Store, call: Call, tmp_path: Path) -> None:
    (tmp_path / "body").write_text("text")
    with (tmp_path / "body").open() as file, pytest.raises(ValueNotSerializable, match="text file"):
        call(store.spool.write, "c", file)  # type: ignore[arg-type]


class Broken(Exception):
    pass


def breaking(after: int) -> Iterator[bytes]:
    yield from list(in_pieces(10))[:after]
    raise Broken


@pytest.mark.parametrize("after", [0, 1, 20, 48])
def test_a_source_that_fails_leaves_the_old_entry(store: Store, call: Call, after: int) -> None:
    old = call(store.spool.write, "c", "old")
    with pytest.raises(Broken):
        call(store.spool.write, "c", breaking(after))
    with pytest.raises(Broken):
        call(store.spool.write, "new", breaking(after))
    assert call(store.spool.read, "c") == old
    assert call(old.read_all) == "old"
    assert call(store.spool.read, "new") is None
    assert call(store.spool.size) == 1
    assert set(states(store)) <= {"live", "condemned"}
    assert states(store)["live"] == 1


def test_an_item_that_is_no_bytes_leaves_the_old_entry(store: Store, call: Call) -> None:
    old = call(store.spool.write, "c", "old")
    with pytest.raises(ValueNotSerializable, match=r"data\[40\]"):
        call(store.spool.write, "c", [*in_pieces(12), "text"])  # type: ignore[list-item]
    assert call(store.spool.read, "c") == old


def test_a_file_that_fails_leaves_the_old_entry(store: Store, call: Call) -> None:
    class Failing(io.RawIOBase):
        left = 20

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self.left -= 1
            if not self.left:
                raise Broken
            buffer[:10] = b"0123456789"
            return 10

    old = call(store.spool.write, "c", "old")
    with pytest.raises(Broken):
        call(store.spool.write, "c", Failing())
    assert call(store.spool.read, "c") == old
    assert states(store)["live"] == 1


def test_an_asynchronous_source_that_fails_leaves_the_old_entry(store: Store) -> None:
    old = store.spool.write("c", "old")
    with pytest.raises(Broken):
        async_to_sync(store.spool.awrite)("c", later(*in_pieces(10), Broken()))
    assert store.spool.read("c") == old
    assert set(states(store)) <= {"live", "condemned"}


def test_a_cancelled_upload_leaves_the_old_entry(store: Store, chunk_size: int) -> None:
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
    assert store.spool.read("c") == old
    assert states(store) == ({"live": 1} if chunk_size > 7 else {"live": 1, "condemned": 1})


def test_a_source_that_fails_inside_a_transaction_does_not_poison_it(store: Store, call: Call) -> None:
    old = call(store.spool.write, "c", "old")
    with transaction.atomic(using=store.alias):
        call(store.kv.set, "before", 1)
        with pytest.raises(Broken):
            call(store.spool.write, "c", breaking(40))
        call(store.kv.set, "behind", 1)
    assert call(store.kv.get, "behind") == 1
    assert call(store.spool.read, "c") == old
    assert states(store)["live"] == 1
