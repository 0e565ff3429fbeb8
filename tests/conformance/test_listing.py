"""size, clear and scan: exactly one namespace of one facet, without its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore import Store
from django_statestore.contracts.base import EntryInfo
from django_statestore.exceptions import InvalidArgument, InvalidKey
from django_statestore.testing import age
from tests.calling import Call

FILL: dict[str, Callable[[Store, str], object]] = {
    "kv": lambda store, key: store.kv.set(key, "value", ttl=60),
    "lock": lambda store, key: store.lock.acquire(key, ttl=60),
    "dedup": lambda store, key: store.dedup.seen(key, 60),
    "spool": lambda store, key: store.spool.write(key, "text"),
}
EXPIRING = ["kv", "lock", "dedup"]
HIGHEST = "\U0010ffff"

# Names that are patterns in LIKE, in GLOB, in Redis or in a path, and that begin with one another.
NAMES: list[tuple[str, ...]] = [
    (), ("a_b",), ("aXb",), ("a%b",), ("foo",), ("foobar",), ("fo",), ("x[1]",), ("x1",), ("*",), ("?",), ("%",),
    ("_",), ("a", "b"), ("a/b",), ("a",), ("a\\", "b"), ("a\\/b",), ("A",), ("a ",), ("{a}",),
    ("foo", "foobar"), ("'",),
]  # fmt: skip


@pytest.fixture(params=FILL)
def name(request: pytest.FixtureRequest) -> str:
    """Name each facet that can be listed in turn."""
    return str(request.param)


def keys(call: Call, facet: Any, **arguments: Any) -> list[str]:
    """Page through a namespace to its end."""
    found: list[str] = []
    cursor = None
    while True:
        page = call(facet.scan, cursor=cursor, **arguments)
        found += [item.key for item in page.items]
        cursor = page.cursor
        if cursor is None:
            return found


# -- exactly this namespace -------------------------------------------------------------------------------------------


def test_a_namespace_is_matched_exactly(store: Store, name: str) -> None:
    call = Call(asynchronous=False)
    for number, names in enumerate(NAMES):
        for key in range(number % 3 + 1):
            FILL[name](store.namespace(*names), f"{number}-{key}")
    left = set(range(len(NAMES)))
    for number, names in enumerate(NAMES):
        facet = getattr(store.namespace(*names), name)
        expected = [f"{number}-{key}" for key in range(number % 3 + 1)]
        assert (facet.size(), keys(call, facet)) == (len(expected), expected), names
    for number, names in enumerate(NAMES):
        getattr(store.namespace(*names), name).clear()
        left.discard(number)
        sizes = {other: getattr(store.namespace(*NAMES[other]), name).size() for other in range(len(NAMES))}
        assert sizes == {other: (other % 3 + 1) * (other in left) for other in range(len(NAMES))}, names


def test_another_facet_is_neither_listed_nor_cleared(store: Store, call: Call) -> None:
    for fill in FILL.values():
        fill(store, "k")
    for name in FILL:
        facet = getattr(store, name)
        assert keys(call, facet) == ["k"]
        call(facet.clear)
        assert [getattr(store, other).size() for other in FILL] == [int(other != name) for other in FILL]
        FILL[name](store, "k")


def test_an_empty_namespace(store: Store, call: Call, name: str) -> None:
    facet = getattr(store, name)
    call(facet.clear)
    assert call(facet.size) == 0
    page = call(facet.scan)
    assert (page.items, page.cursor) == ((), None)


@pytest.mark.parametrize("name", EXPIRING, indirect=True)
def test_what_has_expired_is_neither_counted_nor_listed(store: Store, call: Call, name: str) -> None:
    FILL[name](store, "old")
    age(store, 61)
    FILL[name](store, "new")
    facet = getattr(store, name)
    assert (call(facet.size), keys(call, facet)) == (1, ["new"])


def test_clear_makes_every_claim_free(store: Store, call: Call) -> None:
    for fill in FILL.values():
        fill(store, "k")
    for name in FILL:
        call(getattr(store, name).clear)
    assert call(store.kv.add, "k", 1) is True
    assert call(store.lock.acquire, "k") is not None
    assert call(store.dedup.seen, "k", 60) is False
    assert call(store.spool.read, "k") is None


# -- what a listing shows ---------------------------------------------------------------------------------------------


def test_an_entry_is_described_without_its_value(store: Store, call: Call) -> None:
    call(store.kv.set, "lasting", "secret")
    call(store.kv.set, "passing", ["secret"], ttl=60)
    lasting, passing = call(store.kv.scan).items
    assert [each.name for each in fields(EntryInfo)] == ["key", "size", "expires_in"]
    assert (lasting.key, lasting.size, lasting.expires_in) == ("lasting", len('"secret"'), None)
    assert (passing.key, passing.size) == ("passing", len('["secret"]'))
    assert passing.expires_in is not None
    assert 55 < passing.expires_in <= 60
    assert "secret" not in repr(call(store.kv.scan))


def test_the_size_is_in_bytes_of_what_is_stored(store: Store, call: Call) -> None:
    call(store.kv.set, "k", "€")
    assert call(store.kv.scan).items[0].size == len('"\\u20ac"')
    call(store.spool.write, "k", "€")
    assert call(store.spool.scan).items[0].size == 3


@pytest.mark.parametrize("name", ["lock", "dedup"])
def test_locks_and_events_have_an_end_and_no_size(store: Store, call: Call, name: str) -> None:
    FILL[name](store, "k")
    (item,) = call(getattr(store, name).scan).items
    assert item.size == 0
    assert item.expires_in is not None
    assert 55 < item.expires_in <= 60


# -- order, prefixes and pages ----------------------------------------------------------------------------------------

# Characters on both sides of every length of UTF-8, in code point order, which no collation of a language gives.
ORDERED = [
    " ",
    "-",
    "A",
    "Z",
    "_",
    "a",
    "aB",
    "a_",
    "ab",
    "z",
    "\x7f",
    "ä",
    "é",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "😀",
    HIGHEST,
]


def test_keys_come_in_code_point_order(store: Store, call: Call, name: str) -> None:
    for key in reversed(ORDERED):
        FILL[name](store, key)
    assert sorted(ORDERED) == ORDERED
    assert keys(call, getattr(store, name)) == ORDERED


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 20, 1000])
def test_pages_join_to_the_whole(store: Store, call: Call, limit: int) -> None:
    for key in ORDERED:
        store.dedup.seen(key, 60)
    assert keys(call, store.dedup, limit=limit) == ORDERED
    page = call(store.dedup.scan, limit=limit)
    assert len(page.items) == min(limit, len(ORDERED))
    assert (page.cursor is None) is (limit >= len(ORDERED))


def test_a_last_page_that_is_just_full_has_no_cursor(store: Store, call: Call) -> None:
    for key in "abcd":
        store.kv.set(key, 1)
    page = call(store.kv.scan, limit=2)
    assert page.cursor == "b"
    assert call(store.kv.scan, cursor="b", limit=2).cursor is None


PREFIXED = [
    "%", "%a", "_", "_a", "*", "*a", "?", "[a]", "[a]b", "a", "a%", "a%b", "a_", "a_b", "aXb", "ab", "\\", "\\a", "b",
    HIGHEST, HIGHEST + "a", HIGHEST * 2, "a" + HIGHEST, "a" + HIGHEST + "b", "\ud7ff", "\ud7ff\ue000", "\ue000", "'",
]  # fmt: skip


@pytest.mark.parametrize("name", ["kv", "lock"], indirect=True)
def test_a_prefix_is_text_and_no_pattern(store: Store, call: Call, name: str) -> None:
    for key in PREFIXED:
        FILL[name](store, key)
    facet = getattr(store, name)
    for prefix in ["", *PREFIXED, "A", "c", "a" + HIGHEST * 2, "%%", "\x01"]:
        expected = sorted(key for key in PREFIXED if key.startswith(prefix))
        assert keys(call, facet, prefix=prefix, limit=2) == expected, ascii(prefix)


def test_entries_that_come_and_go_do_not_disturb_the_others(store: Store, call: Call) -> None:
    for key in "bdfhj":
        store.kv.set(key, 1)
    first = call(store.kv.scan, limit=2)
    assert first.cursor == "d"
    store.kv.delete("d")  # the cursor's own entry
    store.kv.set("a", 1)
    store.kv.set("e", 1)
    store.kv.delete("h")
    rest = call(store.kv.scan, cursor=first.cursor, limit=10)
    assert [item.key for item in rest.items] == ["e", "f", "j"]


def test_a_cursor_before_or_behind_the_prefix(store: Store, call: Call) -> None:
    for key in ("a1", "b1", "b2", "c1"):
        store.kv.set(key, 1)
    assert [item.key for item in call(store.kv.scan, "b", "a").items] == ["b1", "b2"]
    assert [item.key for item in call(store.kv.scan, "b", "b1").items] == ["b2"]
    assert call(store.kv.scan, "b", "c").items == ()


def test_bad_arguments_are_refused_before_the_backend_is_touched(store: Store, call: Call, name: str) -> None:
    facet = getattr(store, name)
    wrong: Any
    with CaptureQueriesContext(connections[store.alias]) as sent:
        for wrong in (0, -1, 1001, True, 2.5, "10", None):
            with pytest.raises(InvalidArgument, match="limit"):
                call(facet.scan, limit=wrong)
        for wrong in ("a\0", "\ud800", "x" * 1025, b"a", 1, 0):
            with pytest.raises(InvalidKey):
                call(facet.scan, prefix=wrong)
            with pytest.raises(InvalidKey):
                call(facet.scan, cursor=wrong)
    assert len(sent) == 0


# -- purge ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPIRING, indirect=True)
def test_a_purge_goes_through_all_namespaces_in_batches_and_takes_nothing_alive(store: Store, name: str) -> None:
    backend: Any = store.backend
    day = 86_400
    for number in range(5):
        FILL[name](store.namespace(f"n{number}"), "old")
        age(store.namespace(f"n{number}"), day + 61)
        FILL[name](store.namespace(f"n{number}"), "new")
    counts: list[int] = []
    while not counts or counts[-1]:
        counts.append(backend.entries_purge(name, 2).run())
    assert sum(counts) >= 5
    assert max(counts) == 2
    for number in range(5):
        facet = getattr(store.namespace(f"n{number}"), name)
        assert [item.key for item in facet.scan().items] == ["new"]


def test_a_purge_keeps_what_does_not_expire(store: Store) -> None:
    backend: Any = store.backend
    store.kv.set("k", 1)
    age(store, 1_000_000)
    backend.entries_purge("kv", 1000).run()
    assert store.kv.get("k") == 1
