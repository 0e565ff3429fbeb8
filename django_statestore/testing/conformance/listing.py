"""size, clear and scan: exactly one namespace of one facet, without its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from ...contracts.base import EntryInfo
from ...exceptions import InvalidArgument, InvalidKey
from ...store import Store
from .base import Conformance, later, purge
from .calling import Call
from .cases import NAMES

FILL: dict[str, Callable[[Store, str], object]] = {
    "kv": lambda store, key: store.kv.set(key, "value", ttl=60),
    "list": lambda store, key: store.list.append(key, "value", ttl=60),
    "lock": lambda store, key: store.lock.acquire(key, ttl=60),
    "dedup": lambda store, key: store.dedup.seen(key, 60),
    "queue": lambda store, key: store.queue.enqueue(key, "value", ttl=60),
    "spool": lambda store, key: store.spool.write(key, "text"),
    "handoff": lambda store, key: store.handoff.set(key, {}, 60),
}
LISTED = [name for name in FILL if name != "handoff"]
EXPIRING = [name for name in FILL if name != "spool"]
DAY = 86_400
HIGHEST = "\U0010ffff"

# Characters on both sides of every length of UTF-8, in code point order, which no collation of a language gives.
ORDERED = [
    " ", "-", "A", "Z", "_", "a", "aB", "a_", "ab", "z", "\x7f", "\u00e4", "\u00e9", "\ud7ff", "\ue000", "\uffff",
    "\U0001f600", HIGHEST,
]  # fmt: skip

PREFIXED = [
    "%", "%a", "_", "_a", "*", "*a", "?", "[a]", "[a]b", "a", "a%", "a%b", "a_", "a_b", "aXb", "ab", "\\", "\\a", "b",
    HIGHEST, HIGHEST + "a", HIGHEST * 2, "a" + HIGHEST, "a" + HIGHEST + "b", "\ud7ff", "\ud7ff\ue000", "\ue000", "'",
]  # fmt: skip

listed = pytest.mark.parametrize("name", LISTED)
everywhere = pytest.mark.parametrize("name", FILL)


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


class ListingConformance(Conformance):
    """Hold a backend to the rules of namespaces, and of ``size``, ``clear`` and ``scan``."""

    # -- exactly this namespace ---------------------------------------------------------------------------------------

    @everywhere
    def test_a_namespace_is_matched_exactly(self, store: Store, name: str) -> None:
        call = Call(asynchronous=False)
        for number, names in enumerate(NAMES):
            for key in range(number % 3 + 1):
                FILL[name](store.namespace(*names), f"{number}-{key}")
        left = set(range(len(NAMES)))
        for number, names in enumerate(NAMES):
            facet = getattr(store.namespace(*names), name)
            expected = [f"{number}-{key}" for key in range(number % 3 + 1)]
            assert facet.size() == len(expected), names
            assert name not in LISTED or keys(call, facet) == expected, names
        for number, names in enumerate(NAMES):
            getattr(store.namespace(*names), name).clear()
            left.discard(number)
            sizes = {other: getattr(store.namespace(*NAMES[other]), name).size() for other in range(len(NAMES))}
            assert sizes == {other: (other % 3 + 1) * (other in left) for other in range(len(NAMES))}, names

    def test_parts_that_are_cut_elsewhere_never_meet(self, store: Store, call: Call) -> None:
        written = [
            (("a",), "b:c"), (("a", "b"), "c"), (("a/b",), "c"), (("a\\", "b"), "c"), (("a\\/b",), "c"), ((), "a/b/c"),
            (("a",), "b/c"), (("ab",), "c"), (("a",), "bc"), (("{a}",), "b"), (("{a",), "}b"), (("1", "a"), "x"),
        ]  # fmt: skip
        for number, (names, key) in enumerate(written):
            here = store.namespace(*names)
            assert call(here.kv.add, key, number) is True
            assert call(here.dedup.seen, key, 60) is False
            assert call(here.lock.acquire, key, 60) is not None
            assert call(here.list.append, key, number) == call(here.queue.enqueue, key, number) == 1
        assert call(store.namespace("a:b").kv.get, "c") is None
        assert call(store.namespace("a").kv.get, "b") is None
        for number, (names, key) in enumerate(written):
            here = store.namespace(*names)
            assert (call(here.kv.get, key), call(here.list.range, key)) == (number, [number])

    def test_each_facet_has_its_own_keys(self, store: Store, call: Call) -> None:
        for fill in FILL.values():
            fill(store, "k")
        call(store.kv.set, "dedup:e", "v")
        assert call(store.dedup.seen, "e", 60) is False
        assert call(store.kv.get, "k") == "value"
        assert call(store.list.range, "k") == ["value"]
        assert call(store.queue.peek, "k") == "value"
        assert call(store.handoff.get, "k") == {}
        assert call(store.dedup.seen, "k", 60) is True

    def test_another_facet_is_neither_listed_nor_cleared(self, store: Store, call: Call) -> None:
        for fill in FILL.values():
            fill(store, "k")
        for name in FILL:
            facet = getattr(store, name)
            assert name not in LISTED or keys(call, facet) == ["k"]
            call(facet.clear)
            assert [call(getattr(store, other).size) for other in FILL] == [int(other != name) for other in FILL]
            FILL[name](store, "k")

    @listed
    def test_an_empty_namespace(self, store: Store, call: Call, name: str) -> None:
        facet = getattr(store, name)
        call(facet.clear)
        assert call(facet.size) == 0
        page = call(facet.scan)
        assert (page.items, page.cursor) == ((), None)

    def test_clear_makes_every_claim_free(self, store: Store, call: Call) -> None:
        for fill in FILL.values():
            fill(store, "k")
        for name in FILL:
            call(getattr(store, name).clear)
        assert call(store.kv.add, "k", 1) is True
        assert call(store.list.append, "k", 1) == 1
        assert call(store.lock.acquire, "k", 60) is not None
        assert call(store.dedup.seen, "k", 60) is False
        assert call(store.queue.enqueue, "k", 1) == 1
        assert call(store.spool.read, "k") is None
        assert call(store.handoff.get, "k") is None
        later(store, 61)  # the old expiry is gone with the old entry
        assert call(store.kv.get, "k") == 1
        assert call(store.list.range, "k") == [1]
        assert call(store.queue.depth, "k") == 1

    # -- time and the purge -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("purged", [False, True], ids=["unpurged", "purged"])
    @pytest.mark.parametrize("name", EXPIRING)
    def test_what_has_expired_is_neither_counted_nor_listed(
        self, store: Store, call: Call, name: str, purged: bool
    ) -> None:
        FILL[name](store, "old")
        later(store, 61)
        FILL[name](store, "new")
        if purged:
            purge(store)
        facet = getattr(store, name)
        assert call(facet.size) == 1
        assert name not in LISTED or keys(call, facet) == ["new"]

    @pytest.mark.parametrize("name", EXPIRING)
    def test_time_passes_in_the_one_namespace_that_ages(self, store: Store, call: Call, name: str) -> None:
        for here in (store, store.namespace("below"), store.namespace("below", "it")):
            FILL[name](here, "k")
        later(store.namespace("below"), 61)
        sizes = [
            call(getattr(here, name).size) for here in (store, store.namespace("below"), store.namespace("below", "it"))
        ]
        assert sizes == [1, 0, 1]

    @everywhere
    def test_a_purge_takes_nothing_that_is_alive(self, store: Store, call: Call, name: str) -> None:
        for number in range(3):
            here = store.namespace(f"n{number}")
            FILL[name](here, "old")
            if name == "spool":
                here.spool.delete("old")
            later(here, DAY + 61)
            FILL[name](here, "new")
        purge(store)
        assert purge(store) == 0
        for number in range(3):
            facet = getattr(store.namespace(f"n{number}"), name)
            assert call(facet.size) == 1
            assert name not in LISTED or keys(call, facet) == ["new"]

    # -- what a listing shows -----------------------------------------------------------------------------------------

    def test_an_entry_is_described_without_its_value(self, store: Store, call: Call) -> None:
        call(store.kv.set, "lasting", "secret")
        call(store.kv.set, "passing", ["secret"], ttl=60)
        lasting, passing = call(store.kv.scan).items
        assert [each.name for each in fields(EntryInfo)] == ["key", "size", "expires_in"]
        assert (lasting.key, lasting.size, lasting.expires_in) == ("lasting", len('"secret"'), None)
        assert (passing.key, passing.size) == ("passing", len('["secret"]'))
        assert passing.expires_in is not None
        assert 0 < passing.expires_in <= 60
        assert "secret" not in repr(call(store.kv.scan))

    def test_the_size_is_in_bytes_of_what_is_stored(self, store: Store, call: Call) -> None:
        call(store.kv.set, "k", "\u20ac")
        assert call(store.kv.scan).items[0].size == len('"\\u20ac"')
        call(store.spool.write, "k", "\u20ac")
        assert call(store.spool.scan).items[0].size == 3

    @pytest.mark.parametrize("name", ["lock", "dedup"])
    def test_locks_and_events_have_an_end_and_no_size(self, store: Store, call: Call, name: str) -> None:
        FILL[name](store, "k")
        (item,) = call(getattr(store, name).scan).items
        assert item.size == 0
        assert item.expires_in is not None
        assert 0 < item.expires_in <= 60

    # -- order, prefixes and pages ------------------------------------------------------------------------------------

    @listed
    def test_keys_come_in_code_point_order(self, store: Store, call: Call, name: str) -> None:
        for key in reversed(ORDERED):
            FILL[name](store, key)
        assert sorted(ORDERED) == ORDERED
        assert keys(call, getattr(store, name)) == ORDERED

    @pytest.mark.parametrize("limit", [1, 2, 7, 18, 1000])
    @listed
    def test_pages_join_to_the_whole(self, store: Store, name: str, limit: int) -> None:
        call, facet = Call(asynchronous=False), getattr(store, name)
        for key in ORDERED:
            FILL[name](store, key)
        assert keys(call, facet, limit=limit) == ORDERED
        page = facet.scan(limit=limit)
        assert len(page.items) == min(limit, len(ORDERED))
        assert (page.cursor is None) is (limit >= len(ORDERED))

    def test_a_last_page_that_is_just_full_has_no_cursor(self, store: Store, call: Call) -> None:
        for key in "abcd":
            store.kv.set(key, 1)
        page = call(store.kv.scan, limit=2)
        assert page.cursor == "b"
        assert call(store.kv.scan, cursor="b", limit=2).cursor is None

    @listed
    def test_a_prefix_is_text_and_no_pattern(self, store: Store, name: str) -> None:
        for key in PREFIXED:
            FILL[name](store, key)
        call, facet = Call(asynchronous=False), getattr(store, name)
        for prefix in ["", *PREFIXED, "A", "c", "a" + HIGHEST * 2, "%%", "\x01"]:
            expected = sorted(key for key in PREFIXED if key.startswith(prefix))
            assert keys(call, facet, prefix=prefix, limit=20) == expected, ascii(prefix)

    def test_entries_that_come_and_go_do_not_disturb_the_others(self, store: Store, call: Call) -> None:
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

    def test_a_cursor_before_or_behind_the_prefix(self, store: Store, call: Call) -> None:
        for key in ("a1", "b1", "b2", "c1"):
            store.kv.set(key, 1)
        assert [item.key for item in call(store.kv.scan, "b", "a").items] == ["b1", "b2"]
        assert [item.key for item in call(store.kv.scan, "b", "b1").items] == ["b2"]
        assert call(store.kv.scan, "b", "c").items == ()

    @listed
    def test_bad_arguments_are_refused(self, store: Store, call: Call, name: str) -> None:
        facet = getattr(store, name)
        wrong: Any
        for wrong in (0, -1, 1001, True, 2.5, "10", None):
            with pytest.raises(InvalidArgument, match="limit"):
                call(facet.scan, limit=wrong)
        for wrong in ("a\0", "\ud800", "x" * 1025, b"a", 1, 0):
            with pytest.raises(InvalidKey):
                call(facet.scan, prefix=wrong)
            with pytest.raises(InvalidKey):
                call(facet.scan, cursor=wrong)

    @pytest.mark.parametrize("name", ["", "a\0", "\ud800", "x" * 1025, b"a", 1, None], ids=lambda name: ascii(name)[:9])
    def test_a_bad_name_of_a_namespace_is_refused(self, store: Store, name: Any) -> None:
        with pytest.raises(InvalidKey):
            store.namespace(name)
        with pytest.raises(InvalidKey):
            store.at(("a", name))
