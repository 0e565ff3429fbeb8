"""spool: call ids, namespaces, and refs that name one version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_statestore.exceptions import BlobGone, InvalidArgument, InvalidKey, InvalidKeyType
from django_statestore.store import Store
from tests.calling import Call

from .spools import states

# -- ids and namespaces -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call_id", ["", "a\0", "\ud800", "é" * 513])
def test_what_is_no_call_id_is_refused(store: Store, call: Call, call_id: str) -> None:
    with pytest.raises(InvalidKey, match="the call id"):
        call(store.spool.write, call_id, "a")
    with pytest.raises(InvalidKey, match="the call id"):
        call(store.spool.read, call_id)
    with pytest.raises(InvalidKeyType):
        call(store.spool.delete, 7)  # type: ignore[arg-type]


def test_call_ids_are_compared_exactly(store: Store, call: Call) -> None:
    ids = ["Key", "key", "key ", "kéy", "ke\u0301y", "k%", "k_", "*"]
    for call_id in ids:
        call(store.spool.write, call_id, call_id)
    for call_id in ids:
        reader = call(store.spool.read, call_id)
        assert reader is not None
        assert call(reader.read_all) == call_id


NAMESPACES = [("a_b",), ("aXb",), ("x[1]",), ("x1",), ("*",), ("%",), ("a_b", "c"), ("a_b/c",), ("foo",), ("foobar",)]


def test_namespaces_are_apart(store: Store, call: Call) -> None:
    left = {(): store} | {names: store.namespace(*names) for names in NAMESPACES}
    for names, one in left.items():
        call(one.spool.write, "c", repr(names))
    for names in NAMESPACES:
        cleared = left.pop(names)
        call(cleared.spool.clear)
        assert call(cleared.spool.read, "c") is None
        assert states(cleared) == {"dropped": 1}
        for kept, other in left.items():
            reader = call(other.spool.read, "c")
            assert reader is not None
            assert call(reader.read_all) == repr(kept)
            assert call(other.spool.size) == 1
            assert states(other) == {"live": 1}


def test_a_ref_opens_in_its_own_namespace_alone(store: Store, call: Call) -> None:
    ref = call(store.spool.write, "c", "secret").ref
    for other in (store.namespace("below"), store.at(store.names[:-1]), store.at((*store.names[:-1], "beside"))):
        call(other.spool.write, "c", "secret")
        with pytest.raises(BlobGone, match="'c'"):
            call(other.spool.open, ref)


# -- refs -------------------------------------------------------------------------------------------------------------


def test_a_ref_is_plain_json_and_names_one_version(store: Store, call: Call) -> None:
    old = call(store.spool.write, "c", "old\n")
    call(store.spool.write, "c", "new")
    ref = json.loads(json.dumps(old.ref))
    assert ref == old.ref
    assert set(ref) == {"spool", "call_id", "byte_length", "line_count"}
    assert (ref["call_id"], ref["byte_length"], ref["line_count"]) == ("c", 4, 2)
    reader = call(store.spool.open, ref)
    assert reader == old
    assert call(reader.read_all) == "old\n"


def test_a_ref_of_nothing_is_gone(store: Store, call: Call) -> None:
    ref = call(store.spool.write, "c", "a").ref
    for wrong in ({"spool": "0" * 32}, {"call_id": "d"}):
        with pytest.raises(BlobGone):
            call(store.spool.open, ref | wrong)


REFS: list[tuple[dict[str, Any], str]] = [
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


@pytest.mark.parametrize(("wrong", "member"), REFS)
def test_what_is_no_ref_is_refused_by_member(store: Store, call: Call, wrong: dict[str, Any], member: str) -> None:
    ref = call(store.spool.write, "c", "a").ref
    with pytest.raises(ValueError, match=rf"ref\['{member}'\]") as caught:
        call(store.spool.open, ref | wrong)
    assert isinstance(caught.value, InvalidArgument | InvalidKey)


@pytest.mark.parametrize("member", ["spool", "call_id", "byte_length", "line_count"])
def test_a_ref_is_whole(store: Store, call: Call, member: str) -> None:
    ref = call(store.spool.write, "c", "a").ref
    del ref[member]
    with pytest.raises(InvalidArgument, match=rf"ref\['{member}'\] is missing"):
        call(store.spool.open, ref)


@pytest.mark.parametrize("ref", [None, "0" * 32, ["spool"], 7])
def test_a_ref_is_a_dict(store: Store, call: Call, ref: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"reader\.ref"):
        call(store.spool.open, ref)
