"""spool: what write, read, open, delete, clear and size promise. What can be written: see uploads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ...exceptions import BlobGone, InvalidArgument, InvalidKey, InvalidKeyType
from ...store import Store
from .base import Conformance
from .bodies import BODIES, Model, after_the_grace, chunks_of
from .calling import Call
from .cases import BAD_KEYS, ODD_KEYS, UNLIKE_KEYS

WRONG_REFS: list[tuple[dict[str, Any], str]] = [
    ({"spool": "x"}, "spool"),
    ({"spool": "A" * 32}, "spool"),
    ({"spool": "0" * 32 + "\n"}, "spool"),
    ({"spool": 1}, "spool"),
    ({"spool": None}, "spool"),
    ({"call_id": 1}, "call_id"),
    ({"call_id": ""}, "call_id"),
    ({"call_id": "\ud800"}, "call_id"),
    ({"byte_length": "1"}, "byte_length"),
    ({"byte_length": True}, "byte_length"),
    ({"byte_length": -1}, "byte_length"),
    ({"byte_length": 99}, "byte_length"),
    ({"line_count": 1.0}, "line_count"),
    ({"line_count": 0}, "line_count"),
    ({"more": 1}, "more"),
]


class SpoolConformance(Conformance):
    """Hold a backend to the rules of ``store.spool``."""

    @pytest.fixture(params=[65_536, 5], ids=["one-chunk", "many-chunks"], autouse=True)
    def chunk_size(self, request: pytest.FixtureRequest, store: Store) -> Iterator[int]:
        """Run every case with bodies of one chunk, and with the same bodies as long ones."""
        with chunks_of(store, request.param):
            yield request.param

    # -- write and read -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", BODIES)
    def test_bytes_come_back_verbatim_and_text_by_one_rule(self, store: Store, call: Call, name: str) -> None:
        body, lines = BODIES[name]
        if lines is None:
            lines = Model(body).lines
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

    @pytest.mark.parametrize(
        "text", ["", "a", "a\nb\n", "h\u00e9llo", "\ufeffa", "a\0b", "\u20ac\U0001f600\r\n" * 9], ids=ascii
    )
    def test_text_is_stored_as_utf8(self, store: Store, call: Call, text: str) -> None:
        reader = call(store.spool.write, "c", text)
        assert call(reader.read_bytes) == text.encode()
        assert reader.byte_length == len(text.encode())
        assert call(reader.read_all) == text.removeprefix("\ufeff")

    def test_what_was_never_written_is_none(self, store: Store, call: Call) -> None:
        assert call(store.spool.read, "c") is None
        assert call(store.spool.delete, "c") is False
        assert call(store.spool.size) == 0
        call(store.spool.clear)

    def test_an_empty_body_is_a_body(self, store: Store, call: Call) -> None:
        call(store.spool.write, "c", b"")
        assert call(store.spool.read, "c") is not None
        assert call(store.spool.size) == 1
        assert call(store.spool.delete, "c") is True

    def test_a_rewrite_replaces(self, store: Store, call: Call) -> None:
        call(store.spool.write, "c", "old, and longer than what follows")
        new = call(store.spool.write, "c", "new one")
        reader = call(store.spool.read, "c")
        assert reader is not None
        assert reader == new
        assert call(reader.read_all) == "new one"
        assert call(store.spool.size) == 1

    def test_each_read_gives_a_fresh_reader(self, store: Store, call: Call) -> None:
        written = call(store.spool.write, "c", "a")
        first, second = call(store.spool.read, "c"), call(store.spool.read, "c")
        assert first is not second
        assert first is not written
        assert first == second == written

    def test_delete_tells_whether_there_was_one(self, store: Store, call: Call) -> None:
        call(store.spool.write, "c", "a")
        assert call(store.spool.delete, "c") is True
        assert call(store.spool.delete, "c") is False
        assert call(store.spool.read, "c") is None
        assert call(store.spool.size) == 0

    def test_after_a_delete_it_can_be_written_again(self, store: Store, call: Call) -> None:
        call(store.spool.write, "c", "a")
        call(store.spool.delete, "c")
        call(store.spool.write, "c", "b")
        reader = call(store.spool.read, "c")
        assert reader is not None
        assert call(reader.read_all) == "b"

    def test_clear_removes_every_entry(self, store: Store, call: Call) -> None:
        for call_id in ("a", "b", "c"):
            call(store.spool.write, call_id, "text")
        call(store.spool.clear)
        assert call(store.spool.size) == 0
        assert call(store.spool.read, "a") is None

    def test_scan_lists_ids_and_sizes(self, store: Store, call: Call) -> None:
        for number, call_id in enumerate(("b", "a", "ab", "\u00e9")):
            call(store.spool.write, call_id, b"x" * number)
        page = call(store.spool.scan)
        assert [(item.key, item.size, item.expires_in) for item in page.items] == [
            ("a", 1, None), ("ab", 2, None), ("b", 0, None), ("\u00e9", 3, None),
        ]  # fmt: skip

    def test_a_body_does_not_expire(self, store: Store, call: Call) -> None:
        reader = call(store.spool.write, "c", "some text, longer than a chunk")
        after_the_grace(store)
        after_the_grace(store)
        assert call(store.spool.read, "c") == reader
        assert call(reader.read_all) == "some text, longer than a chunk"

    # -- snapshots ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("change", ["rewrite", "delete", "clear"])
    def test_a_reader_is_a_snapshot(self, store: Store, call: Call, change: str) -> None:
        old = "first\nsecond\nthird\n" * 3
        call(store.spool.write, "c", old)
        untouched, begun = call(store.spool.read, "c"), call(store.spool.read, "c")
        assert untouched is not None
        assert begun is not None
        assert call(begun.line, 0) == "first"
        file = begun.open()
        assert file.read(3) == b"fir"
        self._change(store, call, change)
        for reader in (untouched, begun):
            assert call(reader.read_all) == old
            assert call(reader.line, 8) == "third"
            assert reader.line_count == 10
            assert call(call(store.spool.open, reader.ref).read_bytes) == old.encode()
        assert file.read() == old.encode()[3:]

    @pytest.mark.parametrize("change", ["rewrite", "delete", "clear"])
    def test_after_its_grace_a_dropped_version_is_gone_and_never_cut_short(
        self, store: Store, call: Call, change: str
    ) -> None:
        reader = call(store.spool.write, "c", "first\nsecond\n" * 3)
        self._change(store, call, change)
        after_the_grace(store)
        for read in (reader.read_all, reader.read_bytes, reader.lines):
            with pytest.raises(BlobGone, match="'c'"):
                call(read)
        with pytest.raises(BlobGone, match="'c'"):
            call(reader.line, 1)
        with pytest.raises(BlobGone, match="'c'"):
            call(store.spool.open, reader.ref)
        left = call(store.spool.read, "c")
        assert (left and call(left.read_all)) == ("x" if change == "rewrite" else None)

    def _change(self, store: Store, call: Call, change: str) -> None:
        if change == "rewrite":
            call(store.spool.write, "c", "x")
        elif change == "delete":
            call(store.spool.delete, "c")
        else:
            call(store.spool.clear)

    def test_bytes_are_copied(self, store: Store, call: Call) -> None:
        body = bytearray(b"before")
        reader = call(store.spool.write, "c", body)
        body[:] = b"behind"
        assert call(reader.read_bytes) == b"before"
        assert call(call(store.spool.write, "c", memoryview(b"abcd")[::2]).read_bytes) == b"ac"

    # -- ids and namespaces -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("call_id", BAD_KEYS, ids=lambda key: ascii(key)[:10])
    def test_what_is_no_call_id_is_refused(self, store: Store, call: Call, call_id: Any) -> None:
        expected = InvalidKey if isinstance(call_id, str) else InvalidKeyType
        with pytest.raises(expected, match="the call id"):
            call(store.spool.write, call_id, "a")
        with pytest.raises(expected, match="the call id"):
            call(store.spool.read, call_id)
        with pytest.raises(expected, match="the call id"):
            call(store.spool.delete, call_id)
        assert call(store.spool.size) == 0

    def test_call_ids_are_compared_exactly(self, store: Store, call: Call) -> None:
        ids = UNLIKE_KEYS + ODD_KEYS
        for call_id in ids:
            call(store.spool.write, call_id, call_id)
        for call_id in ids:
            reader = call(store.spool.read, call_id)
            assert reader is not None
            assert call(reader.read_all) == call_id

    def test_a_ref_opens_in_its_own_namespace_alone(self, store: Store, call: Call) -> None:
        ref = call(store.spool.write, "c", "secret").ref
        for other in (store.namespace("below"), store.at(store.names[:-1]), store.at((*store.names[:-1], "beside"))):
            call(other.spool.write, "c", "secret")
            with pytest.raises(BlobGone, match="'c'"):
                call(other.spool.open, ref)
            call(other.spool.delete, "c")

    # -- refs ---------------------------------------------------------------------------------------------------------

    def test_a_ref_is_plain_json_and_names_one_version(self, store: Store, call: Call) -> None:
        old = call(store.spool.write, "c", "old\n")
        call(store.spool.write, "c", "new")
        ref = json.loads(json.dumps(old.ref))
        assert ref == old.ref
        assert set(ref) == {"spool", "call_id", "byte_length", "line_count"}
        assert (ref["call_id"], ref["byte_length"], ref["line_count"]) == ("c", 4, 2)
        reader = call(store.spool.open, ref)
        assert reader == old
        assert call(reader.read_all) == "old\n"

    def test_a_ref_of_nothing_is_gone(self, store: Store, call: Call) -> None:
        ref = call(store.spool.write, "c", "a").ref
        for wrong in ({"spool": "0" * 32}, {"call_id": "d"}):
            with pytest.raises(BlobGone):
                call(store.spool.open, ref | wrong)

    @pytest.mark.parametrize(("wrong", "member"), WRONG_REFS)
    def test_what_is_no_ref_is_refused_by_member(
        self, store: Store, call: Call, wrong: dict[str, Any], member: str
    ) -> None:
        ref = call(store.spool.write, "c", "a").ref
        with pytest.raises(ValueError, match=rf"ref\['{member}'\]") as caught:
            call(store.spool.open, ref | wrong)
        assert isinstance(caught.value, InvalidArgument | InvalidKey)

    @pytest.mark.parametrize("member", ["spool", "call_id", "byte_length", "line_count"])
    def test_a_ref_is_whole(self, store: Store, call: Call, member: str) -> None:
        ref = call(store.spool.write, "c", "a").ref
        del ref[member]
        with pytest.raises(InvalidArgument, match=rf"ref\['{member}'\] is missing"):
            call(store.spool.open, ref)

    @pytest.mark.parametrize("ref", [None, "0" * 32, ["spool"], 7])
    def test_a_ref_is_a_dict(self, store: Store, call: Call, ref: Any) -> None:
        with pytest.raises(InvalidArgument, match=r"reader\.ref"):
            call(store.spool.open, ref)
