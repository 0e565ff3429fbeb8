"""spool: what write, read, open, delete, clear and size promise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction

from django_statestore.store import Store
from tests.calling import Call

from .spools import chunks_of, states


@pytest.fixture(params=[65_536, 5], ids=["one-chunk", "many-chunks"], autouse=True)
def chunk_size(request: pytest.FixtureRequest, store: Store) -> Iterator[int]:
    """Run every test with bodies of one chunk, and with the same bodies as long ones."""
    with chunks_of(store, request.param):
        yield request.param


# -- write and read ---------------------------------------------------------------------------------------------------

BODIES = {
    "empty": (b"", []),
    "a": (b"a", ["a"]),
    "line-end": (b"\n", ["", ""]),
    "last-line-empty": (b"a\nb\n", ["a", "b", ""]),
    "no-last-line-end": (b"a\nb", ["a", "b"]),
    "crlf": (b"a\r\nb\r\n", ["a\r", "b\r", ""]),
    "cr": (b"a\rb", ["a\rb"]),
    "only-line-feeds-end-lines": ("a\fb\v\u2028c\u2029\u0085d\x1c\x1d\x1ee\nf".encode(), None),
    "multi-byte": ("héllo €😀\nwörld".encode(), None),
    "bom": (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
    "bom-alone": (b"\xef\xbb\xbf", [""]),
    "half-a-bom": (b"\xef\xbb", ["\ufffd"]),
    "nul": (b"a\0b\n\0", ["a\0b", "\0"]),
    "bad-bytes": (b"ok\xc0", ["ok\ufffd"]),
    "cut-short": (b"ok\xe2\x82", ["ok\ufffd"]),
    "cut-by-a-line-end": (b"ok\xe2\x82\n\xacb", ["ok\ufffd", "\ufffdb"]),
    "utf-16": (b"\xff\xfe\x00\x01\x80", None),
    "all-bytes": (bytes(range(256)), None),
    "long": (b"0123456789\n" * 40, None),
}


@pytest.mark.parametrize("name", BODIES)
def test_bytes_come_back_verbatim_and_text_by_one_rule(store: Store, call: Call, name: str) -> None:
    body, lines = BODIES[name]
    if lines is None:
        lines = body.decode("utf-8", "replace").split("\n")
    written = call(store.spool.write, "c", body)
    for reader in (written, call(store.spool.read, "c"), call(store.spool.open, written.ref)):
        assert reader is not None
        assert reader.call_id == "c"
        assert reader.byte_length == len(body)
        assert reader.line_count == len(lines)
        assert call(reader.read_bytes) == body
        assert call(reader.lines) == lines
        assert [call(reader.line, index) for index in range(len(lines))] == lines
        assert call(reader.read_all) == "\n".join(lines)
        with reader.open() as file:
            assert file.read() == body


@pytest.mark.parametrize("text", ["", "a", "a\nb\n", "héllo", "\ufeffa", "a\0b", "€😀\r\n" * 9])
def test_text_is_stored_as_utf8(store: Store, call: Call, text: str) -> None:
    reader = call(store.spool.write, "c", text)
    assert call(reader.read_bytes) == text.encode()
    assert reader.byte_length == len(text.encode())
    assert call(reader.read_all) == text.removeprefix("\ufeff")


def test_what_was_never_written_is_none(store: Store, call: Call) -> None:
    assert call(store.spool.read, "c") is None
    assert call(store.spool.delete, "c") is False
    assert call(store.spool.size) == 0
    call(store.spool.clear)


def test_an_empty_body_is_a_body(store: Store, call: Call) -> None:
    call(store.spool.write, "c", b"")
    assert call(store.spool.read, "c") is not None
    assert call(store.spool.size) == 1


def test_a_rewrite_replaces(store: Store, call: Call) -> None:
    call(store.spool.write, "c", "old")
    new = call(store.spool.write, "c", "new one")
    reader = call(store.spool.read, "c")
    assert reader is not None
    assert reader == new
    assert call(reader.read_all) == "new one"
    assert call(store.spool.size) == 1
    assert states(store) == {"live": 1, "dropped": 1}


def test_each_read_gives_a_fresh_reader(store: Store, call: Call) -> None:
    written = call(store.spool.write, "c", "a")
    first, second = call(store.spool.read, "c"), call(store.spool.read, "c")
    assert first is not second
    assert first is not written
    assert first == second == written


def test_delete_tells_whether_there_was_one(store: Store, call: Call) -> None:
    call(store.spool.write, "c", "a")
    assert call(store.spool.delete, "c") is True
    assert call(store.spool.delete, "c") is False
    assert call(store.spool.read, "c") is None
    assert call(store.spool.size) == 0
    assert states(store) == {"dropped": 1}


def test_after_a_delete_it_can_be_written_again(store: Store, call: Call) -> None:
    call(store.spool.write, "c", "a")
    call(store.spool.delete, "c")
    call(store.spool.write, "c", "b")
    reader = call(store.spool.read, "c")
    assert reader is not None
    assert call(reader.read_all) == "b"
    assert states(store) == {"live": 1, "dropped": 1}


def test_clear_removes_every_entry(store: Store, call: Call) -> None:
    for call_id in ("a", "b", "c"):
        call(store.spool.write, call_id, "text")
    call(store.spool.clear)
    assert call(store.spool.size) == 0
    assert call(store.spool.read, "a") is None
    assert states(store) == {"dropped": 3}


def test_scan_lists_ids_and_sizes(store: Store, call: Call) -> None:
    for number, call_id in enumerate(("b", "a", "ab", "é")):
        call(store.spool.write, call_id, b"x" * number)
    page = call(store.spool.scan)
    assert [(item.key, item.size, item.expires_in) for item in page.items] == [
        ("a", 1, None), ("ab", 2, None), ("b", 0, None), ("é", 3, None),
    ]  # fmt: skip
    first = call(store.spool.scan, "a", None, 1)
    assert [item.key for item in first.items] == ["a"]
    assert [item.key for item in call(store.spool.scan, "a", first.cursor, 1).items] == ["ab"]


# -- snapshots --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["rewrite", "delete", "clear"])
def test_a_reader_is_a_snapshot(store: Store, call: Call, change: str) -> None:
    old = "first\nsecond\nthird\n" * 3
    call(store.spool.write, "c", old)
    untouched, begun = call(store.spool.read, "c"), call(store.spool.read, "c")
    assert untouched is not None
    assert begun is not None
    assert call(begun.line, 0) == "first"
    file = begun.open()
    assert file.read(3) == b"fir"
    if change == "rewrite":
        call(store.spool.write, "c", "x")
    elif change == "delete":
        call(store.spool.delete, "c")
    else:
        call(store.spool.clear)
    for reader in (untouched, begun):
        assert call(reader.read_all) == old
        assert call(reader.line, 8) == "third"
        assert reader.line_count == 10
        assert call(call(store.spool.open, reader.ref).read_bytes) == old.encode()
    assert file.read() == old.encode()[3:]


def test_bytes_are_copied(store: Store, call: Call) -> None:
    body = bytearray(b"before")
    reader = call(store.spool.write, "c", body)
    body[:] = b"behind"
    assert call(reader.read_bytes) == b"before"
    assert call(call(store.spool.write, "c", memoryview(b"abcd")[::2]).read_bytes) == b"ac"


# -- transactions -----------------------------------------------------------------------------------------------------


def test_a_write_joins_the_callers_transaction(store: Store, call: Call) -> None:
    with transaction.atomic(using=store.alias):
        call(store.spool.write, "c", "some text, longer than a chunk")
    reader = call(store.spool.read, "c")
    assert reader is not None
    assert call(reader.read_all) == "some text, longer than a chunk"


@pytest.mark.parametrize("body", ["new", "new, and longer than a chunk", "new\n" * 100])
def test_a_write_that_is_rolled_back_leaves_the_old_entry(store: Store, call: Call, body: str) -> None:
    old = call(store.spool.write, "c", "old")
    with transaction.atomic(using=store.alias):
        call(store.spool.write, "c", body)
        call(store.spool.write, "d", body)
        assert call(store.spool.size) == 2
        transaction.set_rollback(True, using=store.alias)
    assert call(store.spool.read, "c") == old
    assert call(store.spool.read, "d") is None
    assert states(store) == {"live": 1}


def test_a_delete_or_clear_that_is_rolled_back_did_not_happen(store: Store, call: Call) -> None:
    old = call(store.spool.write, "c", "old")
    for remove in (lambda: call(store.spool.delete, "c"), lambda: call(store.spool.clear)):
        with transaction.atomic(using=store.alias):
            remove()
            assert call(store.spool.read, "c") is None
            transaction.set_rollback(True, using=store.alias)
        assert call(store.spool.read, "c") == old
    assert states(store) == {"live": 1}


def test_a_rewrite_does_not_poison_the_callers_transaction(store: Store, call: Call) -> None:
    with transaction.atomic(using=store.alias):
        call(store.kv.set, "before", 1)
        for body in ("one", "two", "three, which is longer"):
            call(store.spool.write, "c", body)
        call(store.kv.set, "behind", 1)
    assert call(store.kv.get, "before") == call(store.kv.get, "behind") == 1
    assert states(store) == {"live": 1, "dropped": 2}


def test_nothing_that_was_written_shows_in_a_repr(store: Store, call: Call) -> None:
    reader = call(store.spool.write, "c", "secret")
    assert repr(reader) == "<SpoolReader call_id='c' byte_length=6 line_count=1>"
    assert reader.ref["spool"] not in repr(reader)
