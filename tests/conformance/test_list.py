"""list: values in order, with one expiry for the whole."""

import pytest

from django_statestore import Store
from django_statestore.exceptions import InvalidArgument, InvalidTTL, ValueNotSerializable
from django_statestore.models import ListHead, ListItem
from django_statestore.services.purge import purge
from django_statestore.testing import age
from tests.calling import Call


def filled(store: Store, call: Call, *values: object) -> list[object]:
    return [call(store.list.append, "L", value) for value in values]


def test_append_returns_the_length_and_range_is_oldest_first(store: Store, call: Call) -> None:
    assert filled(store, call, "a", "b", "c") == [1, 2, 3]
    assert call(store.list.range, "L") == ["a", "b", "c"]
    assert call(store.list.length, "L") == 3


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (0, 1, "ab"), (1, None, "bc"), (0, 0, "a"), (2, 2, "c"), (5, 9, ""), (2, 1, ""), (0, 99, "abc"), (3, None, ""),
    ],
)  # fmt: skip
def test_stop_is_inclusive_and_clipped(store: Store, call: Call, start: int, stop: int | None, expected: str) -> None:
    filled(store, call, "a", "b", "c")
    assert call(store.list.range, "L", start, stop) == list(expected)


@pytest.mark.parametrize(("start", "stop"), [(-1, None), (0, -1), (True, None), (1.0, None), (0, "1")])
def test_negative_and_odd_indices_are_refused(store: Store, call: Call, start: object, stop: object) -> None:
    with pytest.raises(InvalidArgument):
        call(store.list.range, "L", start, stop)  # type: ignore[arg-type]


def test_a_missing_list_is_empty(store: Store, call: Call) -> None:
    assert call(store.list.range, "L") == []
    assert call(store.list.last, "L", 3) == []
    assert call(store.list.length, "L") == 0
    assert call(store.list.delete, "L") is False
    call(store.list.trim, "L", 0)
    call(store.list.trim, "L", 5)


def test_last_gives_the_newest_oldest_first(store: Store, call: Call) -> None:
    filled(store, call, *range(5))
    assert call(store.list.last, "L", 2) == [3, 4]
    assert call(store.list.last, "L", 99) == [0, 1, 2, 3, 4]
    assert call(store.list.last, "L", 0) == []
    with pytest.raises(InvalidArgument):
        call(store.list.last, "L", -1)


def test_max_len_drops_the_oldest_and_the_length_is_after_that(store: Store, call: Call) -> None:
    lengths = [call(store.list.append, "L", value, max_len=2) for value in range(5)]
    assert (lengths, call(store.list.range, "L")) == ([1, 2, 2, 2, 2], [3, 4])
    assert call(store.list.append, "L", 5) == 3
    assert call(store.list.append, "L", 6, max_len=1) == 1
    assert call(store.list.range, "L") == [6]
    assert ListItem.objects.using(store.alias).filter(list__namespace=store.names[0]).count() == 1


@pytest.mark.parametrize("max_len", [0, -1, True, 1.5])
def test_max_len_below_one_is_refused_before_anything_is_written(store: Store, call: Call, max_len: object) -> None:
    with pytest.raises(InvalidArgument, match="max_len"):
        call(store.list.append, "L", 1, max_len=max_len)  # type: ignore[arg-type]
    with pytest.raises(ValueNotSerializable):
        call(store.list.append, "L", object())
    with pytest.raises(InvalidTTL):
        call(store.list.append, "L", 1, ttl=0)
    assert call(store.list.length, "L") == 0


def test_trim_keeps_the_newest_and_the_expiry(store: Store, call: Call) -> None:
    for value in "abc":
        call(store.list.append, "L", value, ttl=10)
    call(store.list.trim, "L", 2)
    assert call(store.list.range, "L") == ["b", "c"]
    call(store.list.trim, "L", 5)
    assert call(store.list.append, "L", "d") == 3
    age(store, 11)
    assert call(store.list.range, "L") == []
    with pytest.raises(InvalidArgument):
        call(store.list.trim, "L", -1)


def test_an_emptied_list_is_gone_and_its_expiry_too(store: Store, call: Call) -> None:
    call(store.list.append, "L", "a", ttl=10)
    call(store.list.trim, "L", 0)
    assert call(store.list.delete, "L") is False
    assert call(store.list.append, "L", "b") == 1
    age(store, 11)
    assert call(store.list.range, "L") == ["b"]


def test_an_append_without_ttl_keeps_the_expiry_of_the_whole_list(store: Store, call: Call) -> None:
    call(store.list.append, "L", "a", ttl=10)
    age(store, 5)
    call(store.list.append, "L", "b")
    age(store, 6)
    assert call(store.list.range, "L") == []


def test_an_append_with_ttl_resets_it_for_all(store: Store, call: Call) -> None:
    call(store.list.append, "L", "a", ttl=10)
    age(store, 5)
    call(store.list.append, "L", "b", ttl=10)
    age(store, 6)
    assert call(store.list.range, "L") == ["a", "b"]
    age(store, 5)
    assert call(store.list.length, "L") == 0


@pytest.mark.parametrize("purged", [False, True], ids=["unpurged", "purged"])
def test_an_append_to_an_expired_list_starts_a_fresh_one_without_expiry(store: Store, call: Call, purged: bool) -> None:
    filled(store, call, "old")
    call(store.list.append, "L", "older", ttl=10)
    age(store, 11)
    assert call(store.list.last, "L", 9) == []
    assert call(store.list.delete, "L") is False
    if purged:
        purge(store.alias)
    assert call(store.list.append, "L", "new") == 1
    age(store, 10**6)
    assert call(store.list.range, "L") == ["new"]


def test_delete_removes_the_list(store: Store, call: Call) -> None:
    filled(store, call, 1, 2)
    assert call(store.list.delete, "L") is True
    assert call(store.list.range, "L") == []
    assert filled(store, call, 3) == [1]


def test_lists_are_separate_by_key_namespace_and_facet(store: Store, call: Call) -> None:
    call(store.list.append, "L", 1)
    call(store.list.append, "l", 2)
    call(store.namespace("below").list.append, "L", 3)
    call(store.kv.set, "L", 4)
    assert call(store.list.range, "L") == [1]
    assert call(store.list.size) == 2
    page = call(store.list.scan)
    assert [(item.key, item.size) for item in page.items] == [("L", 1), ("l", 1)]
    call(store.list.clear)
    assert call(store.list.size) == 0
    assert call(store.namespace("below").list.range, "L") == [3]


def test_the_purge_removes_expired_and_emptied_lists_whole(store: Store, call: Call) -> None:
    call(store.list.append, "expired", 1, ttl=10)
    call(store.list.append, "emptied", 1)
    call(store.list.delete, "emptied")
    call(store.list.append, "kept", 1)
    age(store, 11)
    purge(store.alias)
    heads = ListHead.objects.using(store.alias).filter(namespace=store.names[0])
    assert [head.key for head in heads] == ["kept"]
    assert ListItem.objects.using(store.alias).filter(list__namespace=store.names[0]).count() == 1
