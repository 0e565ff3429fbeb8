"""spool: what is stored, what the server forgets by itself and when, and how many round trips an operation takes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from django_statestore import Store
from django_statestore.backends.redis import RedisBackend
from django_statestore.contracts.blob import Use
from django_statestore.contracts.reader import SpoolReader
from django_statestore.exceptions import BlobGone, NotSupported, StoreUnavailable, UploadLapsed
from django_statestore.testing import age

from .proxy import Proxy
from .test_faults import server
from .turns import count_turns

GRACE, LEASE = 3_600_000, 300_000
BODY = b"".join(b"line %d\n" % number for number in range(60))


@pytest.fixture
def client(raw: redis.Redis) -> Any:
    return raw


@pytest.fixture
def small(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return the store with chunks of 7 bytes, so that the body is of several pieces."""
    monkeypatch.setattr(store.backend, "spool_chunk_size", 7)
    return store


def blobs(client: Any, prefix: str) -> dict[str, int]:
    """Return how long each blob is kept, by its version; -1: without an end."""
    names = list(client.scan_iter(match=f"{prefix}spool.blob:*"))
    return {name[-32:].decode(): client.pttl(name) for name in names}


def version(reader: SpoolReader | None) -> str:
    assert reader is not None
    return str(reader.ref["spool"])


def test_an_entry_and_each_blob_are_one_key_in_one_slot(small: Store, client: Any, prefix: str) -> None:
    for call_id in ("c", "{a}b", "a}b{", "{}"):
        small.spool.write(call_id, BODY)
        small.spool.write(call_id, iter([BODY]))
    names = list(client.scan_iter(match=f"{prefix}*"))
    assert len(names) == 4 * 3
    assert len({redis.crc.key_slot(name) for name in names}) == 1
    small.namespace("below").spool.write("c", BODY)
    assert len({redis.crc.key_slot(name) for name in client.scan_iter(match=f"{prefix}*")}) == 2


def test_a_blob_lives_as_long_as_its_state_wants(store: Store, client: Any, prefix: str) -> None:
    first = store.spool.write("c", "one")
    assert blobs(client, prefix) == {version(first): -1}
    second = store.spool.write("c", "two")
    kept = blobs(client, prefix)
    assert kept[version(second)] == -1
    assert GRACE - 60_000 < kept[version(first)] <= GRACE
    assert store.spool.delete("c") is True
    assert 0 < blobs(client, prefix)[version(second)] <= GRACE
    assert first.read_all() + second.read_all() == "onetwo"
    age(store, GRACE / 1000)
    assert blobs(client, prefix) == {}
    assert list(client.scan_iter(match=f"{prefix}*")) == []


def test_clear_drops_and_does_not_take_away(store: Store, client: Any, prefix: str) -> None:
    readers = [store.spool.write(f"c{number}", f"text {number}") for number in range(30)]
    other = store.namespace("below").spool.write("c0", "other")
    store.spool.clear()
    assert store.spool.size() == 0
    assert [reader.read_all() for reader in readers] == [f"text {number}" for number in range(30)]
    kept = blobs(client, prefix)
    assert kept.pop(version(other)) == -1
    assert all(0 < left <= GRACE for left in kept.values())
    assert len(kept) == 30


def test_the_grace_and_the_lease_are_those_of_the_settings(
    small: Store, client: Any, prefix: str, settings: Any
) -> None:
    settings.STATESTORE = {"SPOOL_GRACE": 20, "SPOOL_LEASE": 30}
    old = small.spool.write("c", BODY)

    def source() -> Iterator[bytes]:
        yield BODY
        (writing,) = (left for left in blobs(client, prefix).values() if left != -1)
        assert 20_000 < writing <= 30_000

    small.spool.write("c", source())
    assert 0 < blobs(client, prefix)[version(old)] <= 20_000


def test_every_piece_renews_the_lease(small: Store, client: Any, prefix: str) -> None:
    def source() -> Iterator[bytes]:
        for start in range(0, len(BODY), 112):  # each item is 16 chunks, written before the next one is asked for
            age(small, LEASE / 1000 * 2 / 3)
            yield BODY[start : start + 112]

    reader = small.spool.write("c", source())
    assert reader.read_bytes() == BODY
    assert blobs(client, prefix) == {version(reader): -1}


@pytest.mark.parametrize("rest", [b"", b"more", BODY], ids=["nothing", "an-end", "another-piece"])
def test_an_upload_that_pauses_for_too_long_is_forgotten_and_says_so(
    small: Store, client: Any, prefix: str, rest: bytes
) -> None:
    old = small.spool.write("c", b"old")

    def source() -> Iterator[bytes]:
        yield BODY
        age(small, LEASE / 1000)
        yield rest

    with pytest.raises(UploadLapsed, match="SPOOL_LEASE"):
        small.spool.write("c", source())
    assert small.spool.read("c") == old
    assert blobs(client, prefix) == {version(old): -1}


def test_a_source_that_fails_leaves_the_old_entry_and_nothing_else(small: Store, client: Any, prefix: str) -> None:
    old = small.spool.write("c", b"old")

    def source() -> Iterator[bytes]:
        yield BODY
        assert len(blobs(client, prefix)) == 2
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        small.spool.write("c", source())
    assert small.spool.read("c") == old
    assert blobs(client, prefix) == {version(old): -1}


def die_writing(url: str, prefix: str) -> None:
    """Be killed in the middle of an upload."""

    def source() -> Iterator[bytes]:
        yield BODY
        os.kill(os.getpid(), signal.SIGKILL)

    backend = RedisBackend(location=url, prefix=prefix)
    backend.spool_chunk_size = 7
    backend.store().namespace("here").spool.write("c", source())


# The other threads of this process wait for nothing that a fork needs.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_killed_writer_leaves_the_old_entry_and_what_expires(
    store: Store, client: Any, prefix: str, url: str
) -> None:
    old = store.spool.write("c", b"old")
    child = os.fork()
    if not child:
        die_writing(url, prefix)
    os.waitpid(child, 0)
    assert store.spool.read("c") == old
    kept = blobs(client, prefix)
    assert kept.pop(version(old)) == -1
    assert [0 < left <= LEASE for left in kept.values()] == [True]
    age(store, LEASE / 1000)
    assert set(blobs(client, prefix)) == {version(old)}


READINGS: dict[str, Callable[[SpoolReader], object]] = {
    "line": lambda reader: reader.line(3),
    "lines": lambda reader: reader.lines(2, 50),
    "read_bytes": lambda reader: reader.read_bytes(3, 300),
    "read_all": lambda reader: reader.read_all(),
    "open": lambda reader: reader.open().read(),
}


@pytest.mark.parametrize("name", READINGS)
def test_missing_bytes_are_never_the_end_of_the_data(small: Store, client: Any, prefix: str, name: str) -> None:
    reader = small.spool.write("c", iter([BODY]))
    (blob,) = client.scan_iter(match=f"{prefix}spool.blob:*")
    count = int(client.hget(blob, "chunks"))
    assert count > 50
    for number in {"line": (3,), "lines": (2, 5, 20, 49), "read_bytes": (0, 7, 42)}.get(name, (0, 20, count - 1)):
        data = client.hget(blob, str(number))
        client.hdel(blob, str(number))
        with pytest.raises(BlobGone):
            READINGS[name](reader)
        client.hset(blob, str(number), data)
        READINGS[name](reader)
    client.delete(blob)
    with pytest.raises(BlobGone):
        READINGS[name](reader)


def test_writers_of_one_id_leave_one_live_blob(store: Store, client: Any, prefix: str) -> None:
    barrier = threading.Barrier(8)
    failed: list[BaseException] = []

    def work(mark: int) -> None:
        try:
            barrier.wait(20)
            for turn in range(20):
                body = b"%d.%d\n" % (mark, turn) * 50
                assert store.spool.write("c", body).read_bytes() == body
                if turn % 5 == 4:
                    store.spool.delete("c")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    current = store.spool.read("c")
    kept = blobs(client, prefix)
    assert len(kept) == 160
    assert [name for name, left in kept.items() if left == -1] == ([version(current)] if current else [])


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_round_trips(store: Store, far: Store, proxy: Proxy, asynchronous: bool) -> None:
    for _ in range(3):  # so that the server knows the scripts
        reader = store.spool.write("c", b"one\ntwo\n")
    assert reader.line(1) == "two"
    store.spool.write("gone", b"")
    store.spool.delete("gone")
    old = SpoolReader(reader._blob, far.backend)  # type: ignore[arg-type]
    operations: list[tuple[Any, str, tuple[Any, ...], int]] = [
        (far.spool, "write", ("new", "text"), 1),
        (far.spool, "write", ("c", "text\nand more"), 2),  # the second names what is dropped
        (far.spool, "read", ("c",), 1),
        (far.spool, "read", ("none",), 1),
        (far.spool, "open", (reader.ref,), 1),
        (far.spool, "delete", ("c",), 2),
        (far.spool, "delete", ("c",), 1),
        (old, "line", (1,), 1),
        (old, "lines", (0, 2), 1),
        (old, "read_bytes", (1, 4), 1),
        (old, "read_all", (), 1),
    ]
    counted = count_turns(proxy, far, [each[:3] for each in operations], asynchronous)
    assert counted == [expected for *_, expected in operations]


def test_a_long_body_is_asked_for_in_pieces_of_a_megabyte(store: Store, far: Store, proxy: Proxy) -> None:
    body = b"x" * 65_535 + b"\n"
    reader = store.spool.write("c", iter([body] * 100))
    old = SpoolReader(reader._blob, far.backend)  # type: ignore[arg-type]
    assert old.line(0) == "x" * 65_535
    before, file = proxy.requests, old.open()
    assert sum(len(piece) for piece in iter(lambda: file.read(65_536), b"")) == reader.byte_length
    assert proxy.requests - before == 100
    before = proxy.requests
    assert old.line(99) == "x" * 65_535
    assert proxy.requests - before <= 2


def test_nothing_is_kept_for_durable_tasks(store: Store, client: Any, prefix: str) -> None:
    with pytest.raises(NotSupported, match="they need a store on a database or in memory"):
        store.spool.write_for_task(7, "c", b"text", "facts")
    backend: Any = store.backend
    entry = store.spool._entry("c")
    blob = backend.spool_begin(entry, "0" * 32, [], LEASE).run()
    shape = store.spool.write("d", b"").ref and backend.spool_read(store.spool._entry("d")).run().shape
    with pytest.raises(NotSupported):
        backend.spool_finish(entry, blob, shape, [], Use(7, "facts")).run()
    backend.spool_abandon(blob).run()
    assert len(blobs(client, prefix)) == 1


def test_a_full_server_takes_nothing_and_keeps_what_it_has() -> None:
    with server("--appendonly", "no", "--maxmemory-policy", "noeviction") as (store, raw):
        backend: Any = store.backend
        backend.spool_chunk_size = 7
        old, shorter = store.spool.write("c", BODY), store.spool.write("d", b"one")

        def source() -> Iterator[bytes]:
            yield BODY
            raw.config_set("maxmemory", 1)
            yield BODY

        for data in (source(), b"small", BODY):
            with pytest.raises(StoreUnavailable, match="its memory is full"):
                store.spool.write("c", data)
        assert store.spool.read("c") == old
        assert old.read_bytes() == BODY
        assert len(blobs(raw, "statestore:")) == 2  # what could not be finished is gone
        assert store.spool.delete("d") is True
        assert shorter.read_all() == "one"
