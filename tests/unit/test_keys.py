"""Keys and namespaces: what is refused, that no two ever meet, and that a path can be read back."""

from __future__ import annotations

import enum
import hashlib
import itertools
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from django_statestore.exceptions import InvalidKey, InvalidKeyType, StateStoreError
from django_statestore.keys import MAX_BYTES, Scope, decode_namespace, encode_namespace, prefix_end

COMPOSED, DECOMPOSED = "k\u00e9y", "ke\u0301y"
HIGHEST = "\U0010ffff"

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
# Few letters, so that names that differ only in where they are cut come up often.
confusable = st.text(st.sampled_from("ab:/\\"), min_size=1, max_size=5)
namespaces = st.lists(st.one_of(confusable, texts), max_size=4).map(tuple)
facets = st.sampled_from(["kv", "lock", "dedup"])


def digest(facet: str, names: tuple[str, ...], key: str) -> bytes:
    return Scope(facet, names).entry(key).digest


# -- the identity -----------------------------------------------------------------------------------------------------


def test_a_digest_is_made_of_each_part_with_its_length() -> None:
    parts = [b"kv", b"1", b"tenant-42", b"turn:7"]  # the 1 is the number of names
    written = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    assert digest("kv", ("tenant-42",), "turn:7") == hashlib.sha256(written).digest()


def test_names_and_key_cut_elsewhere_are_other_entries() -> None:
    parts = [
        ("kv", ("a",), "b:c"), ("kv", ("a:b",), "c"), ("kv", (), "a:b:c"), ("kv", ("a", "b"), "c"),
        ("kv", ("a", "b", "c"), "x"), ("kv", ("a", "b"), "cx"), ("kv", ("a",), "bcx"),
        ("kv", ("1",), "a"), ("kv", (), "a"), ("kv", (), "1"), ("kv", ("a",), "1"),
        ("kva", (), "b"), ("kv", (), "ab"), ("lock", ("a",), "b:c"), ("dedup", ("a",), "b:c"),
        ("kv", ("a/b",), "c"), ("kv", ("a\\/b",), "c"), ("kv", ("a\\", "b"), "c"),
    ]  # fmt: skip
    assert len({digest(*part) for part in parts}) == len(parts)


@given(facets, namespaces, st.one_of(confusable, texts), facets, namespaces, st.one_of(confusable, texts))
@example("kv", ("a",), "b:c", "kv", ("a:b",), "c")
@example("kv", ("a", "b"), "c", "kv", ("a",), "bc")
def test_digests_are_equal_only_for_the_same_entry(
    facet: str, names: tuple[str, ...], key: str, facet2: str, names2: tuple[str, ...], key2: str
) -> None:
    same = (facet, names, key) == (facet2, names2, key2)
    assert (digest(facet, names, key) == digest(facet2, names2, key2)) is same


def test_nothing_is_folded_trimmed_or_normalised() -> None:
    keys = ["Key", "key", "key ", " key", "key\n", "KEY", COMPOSED, DECOMPOSED, "\ufeffkey", "\u017f", "s", "ß", "ss"]
    assert len({digest("kv", (), key) for key in keys}) == len(keys)
    assert [Scope("kv", ()).entry(key).key for key in keys] == keys


def test_an_entry_carries_its_readable_names() -> None:
    entry = Scope("kv", ("tenant", "a/b")).entry("turn:7")
    assert (entry.namespace, entry.key) == ("tenant/a\\/b", "turn:7")


def test_a_key_may_be_of_a_subclass_of_str() -> None:
    class Name(enum.StrEnum):
        TURN = "turn"

    assert digest("kv", (), Name.TURN) == digest("kv", (), "turn")


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [b"k", 1, 0, True, None, 1.5, ("k",), ["k"], object()], ids=repr)
def test_a_key_that_is_no_text_is_a_type_error(key: Any) -> None:
    with pytest.raises(InvalidKeyType, match="not a str") as caught:
        Scope("kv", ()).entry(key)
    assert isinstance(caught.value, TypeError)
    with pytest.raises(InvalidKeyType):
        encode_namespace((key,))


@pytest.mark.parametrize(
    ("key", "reason"),
    [("", "empty"), ("a\0b", "NUL"), ("\0", "NUL"), ("\ud800", "surrogate"), ("a\udc80", "surrogate")],
    ids=ascii,
)
def test_a_key_that_no_store_can_keep_is_a_value_error(key: str, reason: str) -> None:
    for refused in (lambda: Scope("kv", ()).entry(key), lambda: encode_namespace((key,)), lambda: Scope("kv", (key,))):
        with pytest.raises(InvalidKey, match=reason) as caught:
            refused()
        assert isinstance(caught.value, StateStoreError)
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("character", ["k", "é", "€", "😀"])
def test_the_limit_of_a_key_is_in_bytes(character: str) -> None:
    size = len(character.encode())
    longest = character * (MAX_BYTES // size)
    assert Scope("kv", ()).entry(longest).key == longest
    with pytest.raises(InvalidKey, match=f"the limit is {MAX_BYTES}"):
        Scope("kv", ()).entry(longest + character)


def test_a_key_is_never_cut() -> None:
    begin = "k" * (MAX_BYTES - 1)
    assert digest("kv", (), begin + "1") != digest("kv", (), begin + "2")


def test_the_limit_of_a_namespace_counts_its_whole_path() -> None:
    assert len(encode_namespace(("n" * 511, "n" * 512)).encode()) == MAX_BYTES
    with pytest.raises(InvalidKey, match="1025 bytes"):
        encode_namespace(("n" * 512, "n" * 512))
    with pytest.raises(InvalidKey, match="1026 bytes"):  # as it is stored: each slash takes two
        encode_namespace(("/" * 513,))


def test_an_error_does_not_repeat_the_key() -> None:
    for key in ("secret" + "x" * MAX_BYTES, "secret\0", "secret\ud800"):
        with pytest.raises(InvalidKey) as caught:
            Scope("kv", ()).entry(key)
        assert "secret" not in str(caught.value)


# -- the path of a namespace ------------------------------------------------------------------------------------------


def test_paths_are_readable() -> None:
    assert encode_namespace(()) == ""
    assert encode_namespace(("tenant-42", "bot")) == "tenant-42/bot"
    assert encode_namespace(("a/b", "c\\d")) == "a\\/b/c\\\\d"


@given(namespaces)
@example(("\\", "/"))
@example(("a\\", "b"))
@example(("a\\/b",))
@example(("%", "_", "*", "[x]"))
def test_a_path_can_be_read_back(names: tuple[str, ...]) -> None:
    assert decode_namespace(encode_namespace(names)) == names


def test_no_two_namespaces_share_a_path() -> None:
    names = ["".join(name) for size in (1, 2, 3) for name in itertools.product("a/\\", repeat=size)]
    every = [(), *itertools.product(names), *itertools.product(names, repeat=2)]
    assert len({encode_namespace(each) for each in every}) == len(every)


# -- where a prefix ends ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("a", "b"),
        ("az", "a{"),
        ("", None),
        (HIGHEST, None),
        (HIGHEST * 3, None),
        ("a" + HIGHEST, "b"),
        ("a" + HIGHEST * 2, "b"),
        ("\ud7ff", "\ue000"),  # no text holds what lies between
        ("%", "&"),
        ("_", "`"),
    ],
    ids=ascii,
)
def test_prefix_end(prefix: str, end: str | None) -> None:
    assert prefix_end(prefix) == end


# Characters at both sides of every border, so that a prefix and its end meet often.
BORDERS = "\x01\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010fffe\U0010ffff"
borders = st.text(st.sampled_from(BORDERS), max_size=4)


@given(st.one_of(texts, borders), st.one_of(texts, borders))
def test_exactly_the_texts_that_begin_with_a_prefix_lie_between_it_and_its_end(prefix: str, text: str) -> None:
    assume(text)
    end = prefix_end(prefix)
    for candidate in (text, prefix + text):
        within = candidate >= prefix and (end is None or candidate < end)
        assert within is candidate.startswith(prefix)
        as_bytes = candidate.encode() >= prefix.encode() and (end is None or candidate.encode() < end.encode())
        assert as_bytes is within  # databases compare bytes
