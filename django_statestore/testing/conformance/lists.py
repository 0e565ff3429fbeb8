"""list: values in order, with one expiry for the whole."""

from __future__ import annotations

from typing import Any

import pytest

from ...exceptions import InvalidArgument, InvalidKey, InvalidTTL, ValueNotSerializable
from ...store import Store
from .base import Conformance, later, purge
from .calling import Call
from .cases import BAD_KEYS, BAD_TTLS, EMPTY_VALUES, ODD_KEYS, UNLIKE_KEYS


def filled(store: Store, call: Call, *values: object) -> list[object]:
    return [call(store.list.append, "L", value) for value in values]


class ListConformance(Conformance):
    """Hold a backend to the rules of ``store.list``."""

    # -- order and ranges ---------------------------------------------------------------------------------------------

    def test_append_returns_the_length_and_range_is_oldest_first(self, store: Store, call: Call) -> None:
        assert filled(store, call, "a", "b", "c") == [1, 2, 3]
        assert call(store.list.range, "L") == ["a", "b", "c"]
        assert call(store.list.length, "L") == 3

    def test_equal_values_and_empty_ones_are_kept_each(self, store: Store, call: Call) -> None:
        filled(store, call, *EMPTY_VALUES, *EMPTY_VALUES)
        assert repr(call(store.list.range, "L")) == repr(EMPTY_VALUES * 2)
        assert repr(call(store.list.last, "L", 1)) == repr(EMPTY_VALUES[-1:])

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [
            (0, 1, "ab"), (1, None, "bc"), (0, 0, "a"), (2, 2, "c"), (5, 9, ""), (2, 1, ""), (0, 99, "abc"),
            (3, None, ""), (0, 2**53 - 1, "abc"), (2**53 - 1, None, ""),
        ],
    )  # fmt: skip
    def test_stop_is_inclusive_and_clipped(
        self, store: Store, call: Call, start: int, stop: int | None, expected: str
    ) -> None:
        filled(store, call, "a", "b", "c")
        assert call(store.list.range, "L", start, stop) == list(expected)

    def test_ranges_count_from_the_oldest_that_is_left(self, store: Store, call: Call) -> None:
        filled(store, call, *range(6))
        call(store.list.trim, "L", 4)
        call(store.list.append, "L", 6, max_len=4)
        assert call(store.list.range, "L", 0, 1) == [3, 4]
        assert call(store.list.range, "L", 3) == [6]

    @pytest.mark.parametrize(("start", "stop"), [(-1, None), (0, -1), (True, None), (1.0, None), (0, "1"), (None, 1)])
    def test_negative_and_odd_indices_are_refused(self, store: Store, call: Call, start: object, stop: object) -> None:
        with pytest.raises(InvalidArgument):
            call(store.list.range, "L", start, stop)  # type: ignore[arg-type]

    def test_a_missing_list_is_empty(self, store: Store, call: Call) -> None:
        assert call(store.list.range, "L") == []
        assert call(store.list.last, "L", 3) == []
        assert call(store.list.length, "L") == 0
        assert call(store.list.delete, "L") is False
        call(store.list.trim, "L", 0)
        call(store.list.trim, "L", 5)
        assert call(store.list.size) == 0

    def test_last_gives_the_newest_oldest_first(self, store: Store, call: Call) -> None:
        filled(store, call, *range(5))
        assert call(store.list.last, "L", 2) == [3, 4]
        assert call(store.list.last, "L", 99) == [0, 1, 2, 3, 4]
        assert call(store.list.last, "L", 0) == []
        with pytest.raises(InvalidArgument):
            call(store.list.last, "L", -1)

    # -- limits -------------------------------------------------------------------------------------------------------

    def test_max_len_drops_the_oldest_and_the_length_is_after_that(self, store: Store, call: Call) -> None:
        lengths = [call(store.list.append, "L", value, max_len=2) for value in range(5)]
        assert (lengths, call(store.list.range, "L")) == ([1, 2, 2, 2, 2], [3, 4])
        assert call(store.list.append, "L", 5) == 3
        assert call(store.list.append, "L", 6, max_len=1) == 1
        assert call(store.list.range, "L") == [6]

    @pytest.mark.parametrize("max_len", [0, -1, True, 1.5])
    def test_max_len_below_one_is_refused_before_anything_is_written(
        self, store: Store, call: Call, max_len: object
    ) -> None:
        filled(store, call, 1)
        with pytest.raises(InvalidArgument, match="max_len"):
            call(store.list.append, "L", 2, max_len=max_len)  # type: ignore[arg-type]
        with pytest.raises(ValueNotSerializable):
            call(store.list.append, "L", object())
        for ttl in BAD_TTLS:
            with pytest.raises(InvalidTTL):
                call(store.list.append, "L", 2, ttl=ttl)
        assert call(store.list.range, "L") == [1]

    def test_trim_keeps_the_newest_and_the_expiry(self, store: Store, call: Call) -> None:
        for value in "abc":
            call(store.list.append, "L", value, ttl=60)
        call(store.list.trim, "L", 2)
        assert call(store.list.range, "L") == ["b", "c"]
        call(store.list.trim, "L", 5)
        assert call(store.list.append, "L", "d") == 3
        later(store, 61)
        assert call(store.list.range, "L") == []
        with pytest.raises(InvalidArgument):
            call(store.list.trim, "L", -1)

    def test_an_emptied_list_is_gone_and_its_expiry_too(self, store: Store, call: Call) -> None:
        call(store.list.append, "L", "a", ttl=60)
        call(store.list.trim, "L", 0)
        assert call(store.list.range, "L") == []
        assert call(store.list.size) == 0
        assert call(store.list.delete, "L") is False
        assert call(store.list.append, "L", "b") == 1
        later(store, 61)
        assert call(store.list.range, "L") == ["b"]

    # -- expiry -------------------------------------------------------------------------------------------------------

    def test_an_append_without_ttl_keeps_the_expiry_of_the_whole_list(self, store: Store, call: Call) -> None:
        call(store.list.append, "L", "a", ttl=60)
        later(store, 30)
        call(store.list.append, "L", "b")
        call(store.list.append, "L", "c", max_len=2)
        assert call(store.list.range, "L") == ["b", "c"]
        later(store, 31)
        assert call(store.list.range, "L") == []

    def test_an_append_with_ttl_resets_it_for_all(self, store: Store, call: Call) -> None:
        call(store.list.append, "L", "a", ttl=60)
        later(store, 30)
        call(store.list.append, "L", "b", ttl=60)
        later(store, 31)
        assert call(store.list.range, "L") == ["a", "b"]
        later(store, 30)
        assert call(store.list.length, "L") == 0

    def test_an_append_with_ttl_gives_a_lasting_list_an_end(self, store: Store, call: Call) -> None:
        filled(store, call, "a")
        call(store.list.append, "L", "b", ttl=60)
        later(store, 61)
        assert call(store.list.range, "L") == []

    def test_a_fraction_of_a_second_is_no_eternity(self, store: Store, call: Call) -> None:
        call(store.list.append, "L", "a", ttl=0.0001)
        later(store, 1)
        assert call(store.list.range, "L") == []

    @pytest.mark.parametrize("purged", [False, True], ids=["unpurged", "purged"])
    def test_an_append_to_an_expired_list_starts_a_fresh_one_without_expiry(
        self, store: Store, call: Call, purged: bool
    ) -> None:
        filled(store, call, "old")
        call(store.list.append, "L", "older", ttl=10)
        later(store, 11)
        if purged:
            purge(store)
        assert call(store.list.range, "L") == call(store.list.last, "L", 9) == []
        assert call(store.list.length, "L") == call(store.list.size) == 0
        assert call(store.list.delete, "L") is False
        call(store.list.trim, "L", 1)  # revives nothing
        assert call(store.list.range, "L") == []
        assert call(store.list.append, "L", "new", max_len=5) == 1
        later(store, 10**6)
        assert call(store.list.range, "L") == ["new"]

    # -- the rest -----------------------------------------------------------------------------------------------------

    def test_delete_removes_the_list(self, store: Store, call: Call) -> None:
        filled(store, call, 1, 2)
        assert call(store.list.delete, "L") is True
        assert call(store.list.range, "L") == []
        assert filled(store, call, 3) == [1]

    def test_lists_are_separate_by_key_and_namespace(self, store: Store, call: Call) -> None:
        keys = UNLIKE_KEYS + ODD_KEYS
        for key in keys:
            assert call(store.list.append, key, key) == 1
        for key in keys:
            assert call(store.list.range, key) == [key]
        call(store.namespace("below").list.append, "key", 3)
        call(store.list.clear)
        assert call(store.list.size) == 0
        assert call(store.namespace("below").list.range, "key") == [3]

    def test_a_listing_tells_the_bytes_of_all_values(self, store: Store, call: Call) -> None:
        filled(store, call, 1, "two", [3])
        call(store.list.append, "l", 1, ttl=60)
        lasting, passing = call(store.list.scan).items
        assert (lasting.key, lasting.size, lasting.expires_in) == ("L", len('1"two"[3]'), None)
        assert (passing.key, passing.size) == ("l", 1)
        assert passing.expires_in is not None
        assert 0 < passing.expires_in <= 60

    def test_a_bad_key_is_refused_by_every_operation(self, store: Store, call: Call) -> None:
        operations: dict[str, list[Any]] = {
            "append": [1], "range": [], "last": [1], "length": [], "trim": [1], "delete": []
        }  # fmt: skip
        for key in BAD_KEYS:
            for operation, arguments in operations.items():
                with pytest.raises(InvalidKey):
                    call(getattr(store.list, operation), key, *arguments)
        assert call(store.list.size) == 0
