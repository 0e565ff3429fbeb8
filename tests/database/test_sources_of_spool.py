"""spool on a database: the blobs that a failing source leaves behind."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.files.base import ContentFile
from django.db import transaction

from django_statestore.exceptions import ValueNotSerializable
from django_statestore.store import Store
from django_statestore.testing.conformance.uploads import (
    Broken,
    FailingFile,
    asynchronous,
    breaking,
    close,
    in_pieces,
)
from tests.calling import Call
from tests.unit.spools import chunks_of, states


@pytest.fixture(params=[65_536, 7], ids=["one-chunk", "many-chunks"], autouse=True)
def chunk_size(request: pytest.FixtureRequest, store: Store) -> Iterator[int]:
    with chunks_of(store, request.param):
        yield request.param


def test_an_asynchronous_iterable_needs_the_asynchronous_form(store: Store) -> None:
    source = asynchronous(b"a")
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


def test_a_file_that_fails_leaves_the_old_entry(store: Store, call: Call) -> None:
    old = call(store.spool.write, "c", "old")
    with pytest.raises(Broken):
        call(store.spool.write, "c", FailingFile())
    assert call(store.spool.read, "c") == old
    assert states(store)["live"] == 1


def test_an_asynchronous_source_that_fails_leaves_the_old_entry(store: Store) -> None:
    old = store.spool.write("c", "old")
    with pytest.raises(Broken):
        async_to_sync(store.spool.awrite)("c", asynchronous(*in_pieces(10), Broken()))
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
