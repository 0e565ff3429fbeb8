"""spool: what the purge takes, what it leaves, and that it may be killed and run twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from django_statestore.backends.database import DatabaseBackend, spool_purge
from django_statestore.exceptions import BlobGone
from django_statestore.models import SpoolBlob, SpoolChunk, SpoolUse
from django_statestore.store import Store
from tests.calling import Call
from tests.unit.spools import HOUR, age, at_once, chunks_of, states

BODY = "some text of several chunks\n" * 8


@pytest.fixture(autouse=True)
def chunk_size(store: Store) -> Iterator[None]:
    with chunks_of(store, 20):
        yield


def backend(store: Store) -> DatabaseBackend:
    assert isinstance(store.backend, DatabaseBackend)
    return store.backend


def purge(store: Store, limit: int = 100) -> int:
    return backend(store).spool_purge_dropped(HOUR, limit).run()


def purge_writing(store: Store, limit: int = 100) -> int:
    return backend(store).spool_purge_writing(limit).run()


def chunks(store: Store) -> int:
    return SpoolChunk.objects.using(store.alias).count()


def abandon(store: Store) -> None:
    """Leave an upload as a killed process leaves it."""
    flow = store.spool._write("c", [BODY.encode() * 3, b"more"])
    first_piece = next(flow).run()
    begun = flow.send(first_piece).run()
    flow.send(begun)
    flow.close()


# -- the grace --------------------------------------------------------------------------------------------------------


def test_a_dropped_blob_is_taken_after_its_grace(store: Store, call: Call) -> None:
    old = call(store.spool.write, "c", BODY)
    new = call(store.spool.write, "c", BODY)
    assert purge(store) == 0
    age(store, "dropped_at", HOUR - 60_000)
    assert purge(store) == 0
    assert call(old.read_all) == BODY
    age(store, "dropped_at", 60_000)
    assert purge(store) == 1
    assert states(store) == {"live": 1}
    assert chunks(store) == 12
    with pytest.raises(BlobGone, match="'c'"):
        call(old.read_all)
    with pytest.raises(BlobGone, match="'c'"):
        call(store.spool.open, old.ref)
    assert call(new.read_all) == BODY
    assert purge(store) == 0


def test_what_is_live_or_being_written_is_left(store: Store, call: Call) -> None:
    call(store.spool.write, "c", BODY)

    def source() -> Iterator[bytes]:
        yield BODY.encode() * 3
        call(store.spool.clear)
        assert states(store) == {"writing": 1, "dropped": 1}
        age(store, "dropped_at", HOUR)
        assert purge(store) == 1
        assert purge_writing(store) == 0

    reader = call(store.spool.write, "d", source())
    assert call(reader.read_all) == BODY * 3
    assert call(store.spool.size) == 1


def test_a_limit_bounds_one_purge(store: Store, call: Call) -> None:
    for call_id in ("a", "b", "c"):
        call(store.spool.write, call_id, BODY)
    call(store.spool.clear)
    age(store, "dropped_at", HOUR)
    assert [purge(store, 2), purge(store, 2), purge(store, 2)] == [2, 1, 0]
    assert chunks(store) == 0


def test_an_empty_blob_is_taken_too(store: Store, call: Call) -> None:
    call(store.spool.write, "c", "")
    call(store.spool.delete, "c")
    age(store, "dropped_at", HOUR)
    assert purge(store) == 1
    assert states(store) == {}


def test_many_chunks_go_in_short_statements(store: Store, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_purge, "CHUNKS_AT_ONCE", 5)
    for text in (BODY, "x" * 20 * 10, "y"):  # 12, 10 and 1 chunks
        call(store.spool.write, "c", text)
    call(store.spool.delete, "c")
    age(store, "dropped_at", HOUR)
    assert purge(store) == 3
    assert chunks(store) == 0


# -- uploads ----------------------------------------------------------------------------------------------------------


def test_an_upload_of_a_dead_process_is_taken_after_its_lease(store: Store) -> None:
    abandon(store)
    assert states(store) == {"writing": 1}
    assert purge_writing(store) == 0
    age(store, "lease_until", HOUR)
    assert purge_writing(store) == 1
    assert chunks(store) == 0
    assert states(store) == {}


def test_a_failed_upload_is_taken_at_once(store: Store, call: Call) -> None:
    def failing() -> Iterator[bytes]:
        yield BODY.encode() * 3
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call(store.spool.write, "c", failing())
    assert states(store) == {"condemned": 1}
    assert purge_writing(store) == 1
    assert chunks(store) == 0


# -- a purge that was killed, and two at once -------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(1, 6))
def test_a_killed_purge_is_finished_by_the_next(
    store: Store, call: Call, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    class Killed(BaseException):
        pass

    monkeypatch.setattr(spool_purge, "CHUNKS_AT_ONCE", 5)
    old = call(store.spool.write, "c", BODY)
    new = call(store.spool.write, "c", BODY)
    age(store, "dropped_at", HOUR)
    database, left = backend(store).database, after

    def execute(template: str, parameters: Any) -> Any:
        nonlocal left
        left -= 1
        if not left:
            raise Killed
        return type(database).execute(database, template, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(database, "execute", execute)
        with pytest.raises(Killed):
            purge(store)
    if after > 1:
        assert states(store) == {"live": 1, "condemned": 1}
        with pytest.raises(BlobGone):  # nobody begins to read what is going
            call(store.spool.open, old.ref)
    if after > 3:
        with pytest.raises(BlobGone):
            call(old.read_all)
    assert purge_writing(store) + purge(store) == 1
    assert states(store) == {"live": 1}
    assert call(new.read_all) == BODY


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_purges_at_once_take_each_blob_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_purge, "CHUNKS_AT_ONCE", 3)
    for number in range(12):
        store.spool.write(f"c{number}", BODY)
    kept = store.spool.write("kept", BODY)
    for number in range(12):
        store.spool.delete(f"c{number}")
    age(store, "dropped_at", HOUR)
    counts: list[int] = []
    at_once(*[lambda: counts.append(purge(store) + purge_writing(store))] * 4)
    assert sum(counts) + purge(store) + purge_writing(store) == 12
    assert states(store) == {"live": 1}
    assert chunks(store) == 12
    assert kept.read_all() == BODY


# -- durable tasks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "short", BODY, BODY * 3], ids=["empty", "one-chunk", "one-piece", "long"])
def test_a_blob_of_a_task_has_no_entry_and_is_kept_while_it_is_used(store: Store, call: Call, text: str) -> None:
    reader = call(store.spool.write_for_task, 7, "c", text, "facts")
    assert call(store.spool.read, "c") is None
    assert call(store.spool.size) == 0
    assert states(store) == {"dropped": 1}
    uses = SpoolUse.objects.using(store.alias)
    assert list(uses.values_list("task_id", "name", "blob__version")) == [(7, "facts", reader.ref["spool"])]
    call(store.spool.clear)
    age(store, "dropped_at", 24 * HOUR)
    assert purge(store) == 0
    assert call(call(store.spool.open, reader.ref).read_all) == call(reader.read_all) == text
    uses.all().delete()
    assert purge(store) == 1
    assert chunks(store) == 0


def test_blobs_in_use_do_not_hide_the_rest(store: Store, call: Call) -> None:
    for number in range(5):
        call(store.spool.write_for_task, 7, f"c{number}", BODY, "facts")
    age(store, "dropped_at", HOUR)
    call(store.spool.write, "c", BODY)
    call(store.spool.delete, "c")
    age(store, "dropped_at", HOUR)
    assert purge(store, 2) == 1
    assert states(store) == {"dropped": 5}


def test_a_write_for_a_task_leaves_the_entry_of_that_id(store: Store, call: Call) -> None:
    entry = call(store.spool.write, "c", "mine")
    call(store.spool.write_for_task, 7, "c", "of the task", "facts")
    assert call(store.spool.read, "c") == entry
    assert states(store) == {"live": 1, "dropped": 1}


def test_a_write_for_a_task_that_fails_leaves_no_use(store: Store, call: Call) -> None:
    def failing() -> Iterator[bytes]:
        yield BODY.encode() * 3
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call(store.spool.write_for_task, 7, "c", failing(), "facts")
    with transaction.atomic(using=store.alias):
        call(store.spool.write_for_task, 7, "c", BODY, "facts")
        transaction.set_rollback(True, using=store.alias)
    assert not SpoolUse.objects.using(store.alias).exists()
    assert purge_writing(store) == 1
    assert not SpoolBlob.objects.using(store.alias).exists()


def test_a_copied_use_keeps_a_blob_as_the_first_did(store: Store, call: Call) -> None:
    reader = call(store.spool.write_for_task, 7, "c", BODY, "facts")
    age(store, "dropped_at", HOUR)
    with transaction.atomic(using=store.alias):
        backend(store).spool_copy_uses(7, 8)
        backend(store).spool_copy_uses(7, 8)
    uses = SpoolUse.objects.using(store.alias)
    assert set(uses.values_list("task_id", "name")) == {(7, "facts"), (8, "facts")}
    uses.filter(task_id=7).delete()
    age(store, "dropped_at", HOUR)
    assert purge(store) == 0
    assert call(reader.read_all) == BODY


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_use_that_is_copied_beside_a_purge_is_never_empty(store: Store) -> None:
    """Either the purge took the blob, and there is no copy, or the copy keeps it."""
    for number in range(10):
        first, second = 2 * number, 2 * number + 1
        reader = store.spool.write_for_task(first, "c", BODY, "facts")
        age(store, "dropped_at", HOUR)

        def fork(source: int = first, target: int = second) -> None:
            with transaction.atomic(using=store.alias):
                backend(store).spool_copy_uses(source, target)

        def end(task: int = first) -> None:
            SpoolUse.objects.using(store.alias).filter(task_id=task).delete()
            purge(store)

        at_once(fork, end)
        if SpoolUse.objects.using(store.alias).filter(task_id=second).exists():
            assert reader.read_all() == BODY
        else:
            age(store, "dropped_at", HOUR)  # the fork may have begun the grace anew, and then found no use to copy
            purge(store)
            with pytest.raises(BlobGone):
                reader.read_all()
