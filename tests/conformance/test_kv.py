"""kv: values by key, with an optional time to live."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore import Store
from django_statestore.exceptions import InvalidKey, InvalidKeyType, InvalidTTL, ValueNotSerializable
from django_statestore.keys import encode_namespace
from django_statestore.models import KVEntry
from django_statestore.testing import age
from tests.calling import Call
from tests.database.clocks import clock_at

MISSING = object()
UNLIKE_KEYS = ["Key", "key", "key ", " key", "k\u00e9y", "ke\u0301y", "KEY", "key\n", "1", "%", "k_y", "\U0001f600"]


def rows(store: Store) -> int:
    """Count the rows of the namespace, whether they are alive or not."""
    return KVEntry.objects.using(store.alias).filter(namespace=encode_namespace(store.names)).count()


# -- values -----------------------------------------------------------------------------------------------------------


def test_a_missing_key_gives_the_default(store: Store, call: Call) -> None:
    assert call(store.kv.get, "k") is None
    assert call(store.kv.get, "k", MISSING) is MISSING
    assert call(store.kv.consume, "k") is None
    assert call(store.kv.consume, "k", default=MISSING) is MISSING


@pytest.mark.parametrize("value", [None, 0, 0.0, False, "", [], {}, (), b""], ids=repr)
def test_an_empty_value_is_a_value(store: Store, call: Call, value: Any) -> None:
    call(store.kv.set, "k", value)
    read = call(store.kv.get, "k", MISSING)
    assert (read, type(read)) == (value, type(value))
    assert call(store.kv.add, "k", "other") is False
    taken = call(store.kv.consume, "k", MISSING)
    assert (taken, type(taken)) == (value, type(value))
    assert call(store.kv.get, "k", MISSING) is MISSING


@pytest.mark.parametrize(
    "value",
    [
        {"n": 2**64 + 1, "b": 1, "a": [1.5, "x", None, True]},
        {"nul": "\0", "half": "\ud800", "pair": "\U0001f600", "quote": "'\"%s%(x)s:x?\\"},
        float("inf"),
        Decimal("1.10"),
        (1, {2, 3}, frozenset()),
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        timedelta(microseconds=1),
        "x" * 300_000,
    ],
    ids=lambda value: str(value)[:20].encode("unicode_escape").decode(),
)
def test_a_value_comes_back_equal_and_of_the_same_type(store: Store, call: Call, value: Any) -> None:
    call(store.kv.set, "k", value)
    read = call(store.kv.get, "k")
    assert (read, type(read)) == (value, type(value))
    if isinstance(value, dict):
        assert list(read) == list(value)


def test_nothing_is_shared_by_reference(store: Store, call: Call) -> None:
    value = {"a": [1]}
    call(store.kv.set, "k", value)
    value["a"].append(2)
    call(store.kv.get, "k")["a"].append(3)
    assert call(store.kv.get, "k") == {"a": [1]}


def test_a_value_that_would_not_come_back_leaves_the_old_one(store: Store, call: Call) -> None:
    call(store.kv.set, "k", "old")
    for operation in (store.kv.set, store.kv.add):
        with pytest.raises(ValueNotSerializable, match=r"^\$\.items\[1\]"):
            call(operation, "k", {"items": [1, object()]})
    assert call(store.kv.get, "k") == "old"


# -- expiry -----------------------------------------------------------------------------------------------------------


def test_set_replaces_value_and_expiry(store: Store, call: Call) -> None:
    call(store.kv.set, "lasting", 1, ttl=10)
    call(store.kv.set, "lasting", 2)
    call(store.kv.set, "passing", 1)
    call(store.kv.set, "passing", 2, ttl=10)
    call(store.kv.set, "longer", 1, ttl=5)
    call(store.kv.set, "longer", 2, ttl=20)
    age(store, 11)
    assert [call(store.kv.get, key) for key in ("lasting", "passing", "longer")] == [2, None, 2]


def test_set_revives_an_expired_key(store: Store, call: Call) -> None:
    call(store.kv.set, "k", 1, ttl=10)
    age(store, 11)
    call(store.kv.set, "k", 2)
    age(store, 10_000)
    assert call(store.kv.get, "k") == 2


def test_a_value_without_ttl_does_not_expire(store: Store, call: Call) -> None:
    call(store.kv.set, "k", 1)
    age(store, timedelta(days=3650))
    assert call(store.kv.get, "k") == 1


@pytest.mark.parametrize("ttl", [0.0001, 0.4, timedelta(microseconds=1), timedelta(seconds=0.9)], ids=repr)
def test_a_fraction_of_a_second_is_no_eternity(store: Store, call: Call, ttl: Any) -> None:
    call(store.kv.set, "set", 1, ttl=ttl)
    call(store.kv.add, "added", 1, ttl=ttl)
    call(store.kv.set, "touched", 1)
    call(store.kv.touch, "touched", ttl)
    age(store, 1)
    assert [call(store.kv.get, key) for key in ("set", "added", "touched")] == [None] * 3


def test_an_expired_value_is_absent_though_nobody_purged_it(store: Store, call: Call) -> None:
    def expired() -> None:
        call(store.kv.set, "k", "old", ttl=10)
        age(store, 11)
        assert rows(store) == 1

    expired()
    assert call(store.kv.get, "k", MISSING) is MISSING
    assert call(store.kv.consume, "k", MISSING) is MISSING
    assert call(store.kv.delete, "k") is False
    assert call(store.kv.touch, "k", 60) is False
    assert call(store.kv.touch, "k", None) is False
    assert call(store.kv.get, "k", MISSING) is MISSING
    assert call(store.kv.size) == 0
    assert call(store.kv.scan).items == ()
    expired()
    assert call(store.kv.add, "k", "new") is True
    assert call(store.kv.get, "k") == "new"


def test_a_value_lives_only_while_its_expiry_lies_ahead(store: Store, call: Call) -> None:
    def seen_at(milliseconds: int, operation: Callable[..., Any], *arguments: Any) -> Any:
        with clock_at(store, 0):
            call(store.kv.set, "k", "value", ttl=5)
        with clock_at(store, milliseconds):
            return call(operation, *arguments)

    assert seen_at(4999, store.kv.get, "k") == "value"
    assert seen_at(5000, store.kv.get, "k") is None
    assert seen_at(4999, store.kv.consume, "k") == "value"
    assert seen_at(5000, store.kv.consume, "k") is None
    assert seen_at(4999, store.kv.delete, "k") is True
    assert seen_at(5000, store.kv.delete, "k") is False
    assert seen_at(4999, store.kv.touch, "k", 1) is True
    assert seen_at(5000, store.kv.touch, "k", 1) is False
    assert seen_at(4999, store.kv.add, "k", "new") is False
    assert seen_at(5000, store.kv.add, "k", "new") is True
    assert seen_at(4999, store.kv.size) == 1
    assert seen_at(5000, store.kv.size) == 0
    assert len(seen_at(4999, store.kv.scan).items) == 1
    assert len(seen_at(5000, store.kv.scan).items) == 0


def test_touch_replaces_the_expiry_alone(store: Store, call: Call) -> None:
    call(store.kv.set, "shorter", 1, ttl=100)
    call(store.kv.set, "longer", 2, ttl=5)
    call(store.kv.set, "lasting", 3, ttl=5)
    call(store.kv.set, "passing", 4)
    assert call(store.kv.touch, "shorter", 5) is True
    assert call(store.kv.touch, "longer", 100) is True
    assert call(store.kv.touch, "lasting", None) is True
    assert call(store.kv.touch, "passing", 5) is True
    assert call(store.kv.touch, "missing", 5) is False
    age(store, 6)
    assert [call(store.kv.get, key) for key in ("shorter", "longer", "lasting", "passing")] == [None, 2, 3, None]


# -- add, consume, delete ---------------------------------------------------------------------------------------------


def test_add_stores_only_where_nothing_lives(store: Store, call: Call) -> None:
    assert call(store.kv.add, "k", 1, ttl=10) is True
    assert call(store.kv.add, "k", 2) is False
    assert call(store.kv.get, "k") == 1
    age(store, 11)  # the one that lost has not taken the expiry away
    assert call(store.kv.get, "k") is None
    assert call(store.kv.add, "k", 3) is True
    age(store, 1000)
    assert call(store.kv.get, "k") == 3


def test_add_takes_an_expired_key_with_value_and_expiry(store: Store, call: Call) -> None:
    call(store.kv.set, "k", "old", ttl=10)
    age(store, 11)
    assert call(store.kv.add, "k", "new", ttl=20) is True
    age(store, 19)
    assert call(store.kv.get, "k") == "new"
    age(store, 2)
    assert call(store.kv.get, "k") is None


def test_consume_gives_a_value_once(store: Store, call: Call) -> None:
    call(store.kv.set, "k", "token", ttl=60)
    assert call(store.kv.consume, "k") == "token"
    assert call(store.kv.consume, "k", MISSING) is MISSING
    assert call(store.kv.get, "k", MISSING) is MISSING
    assert rows(store) == 0


def test_delete_tells_whether_there_was_a_value(store: Store, call: Call) -> None:
    call(store.kv.set, "k", None)
    assert call(store.kv.delete, "k") is True
    assert call(store.kv.delete, "k") is False
    assert call(store.kv.get, "k", MISSING) is MISSING


# -- keys -------------------------------------------------------------------------------------------------------------


def test_keys_that_look_alike_are_different(store: Store, call: Call) -> None:
    for number, key in enumerate(UNLIKE_KEYS):
        assert call(store.kv.add, key, number) is True
    assert [call(store.kv.get, key) for key in UNLIKE_KEYS] == list(range(len(UNLIKE_KEYS)))
    assert call(store.kv.consume, "Key") == 0
    assert call(store.kv.get, "key") == 1


@pytest.mark.parametrize(
    "key", [" ", "a\nb", "\t", "\x7f", "\u2028", "'; --", "%(id)s", ":id", "?", "k" * 1024], ids=ascii
)
def test_any_text_is_a_key(store: Store, call: Call, key: str) -> None:
    call(store.kv.set, key, "value")
    assert call(store.kv.get, key) == "value"
    assert [item.key for item in call(store.kv.scan).items] == [key]


def test_a_key_may_be_of_a_subclass_of_str(store: Store, call: Call) -> None:
    class Name(enum.StrEnum):
        TURN = "turn"

    call(store.kv.set, Name.TURN, 1)
    assert call(store.kv.get, "turn") == 1


def test_parts_that_are_cut_elsewhere_never_meet(store: Store, call: Call) -> None:
    call(store.namespace("a").kv.set, "b:c", 1)
    call(store.namespace("a", "b").kv.set, "c", 2)
    call(store.namespace("a/b").kv.set, "c", 3)
    call(store.namespace("a\\", "b").kv.set, "c", 4)
    assert call(store.namespace("a:b").kv.get, "c") is None
    assert call(store.namespace("a").kv.get, "b") is None
    assert call(store.namespace("a", "b").kv.get, "c") == 2
    assert call(store.namespace("a/b").kv.get, "c") == 3
    assert call(store.namespace("a\\", "b").kv.get, "c") == 4


def test_each_facet_has_its_own_keys(store: Store, call: Call) -> None:
    call(store.kv.set, "x", 1)
    assert call(store.lock.acquire, "x") is not None
    assert call(store.dedup.seen, "x", 60) is False
    call(store.spool.write, "x", "text")
    assert call(store.kv.get, "x") == 1
    for facet in (store.dedup, store.spool, store.lock):
        call(facet.clear)
        assert call(store.kv.get, "x") == 1
    call(store.dedup.seen, "x", 60)
    call(store.kv.clear)
    assert call(store.dedup.seen, "x", 60) is True


# -- refused before anything is sent ----------------------------------------------------------------------------------

BAD_KEYS: list[Any] = ["", "a\0", "\ud800", "k" * 1025, b"k", 1, True, None]
BAD_TTLS: list[Any] = [0, -1, -5.0, 10**16, float("inf"), float("nan"), True, timedelta(0), timedelta(days=4000), "60"]
OPERATIONS: dict[str, list[Any]] = {"get": [], "set": [1], "add": [1], "consume": [], "delete": [], "touch": [60]}


@pytest.mark.parametrize("key", BAD_KEYS, ids=lambda key: ascii(key)[:10])
def test_a_bad_key_is_refused_before_the_backend_is_touched(store: Store, call: Call, key: Any) -> None:
    expected = InvalidKey if isinstance(key, str) else InvalidKeyType
    with CaptureQueriesContext(connections[store.alias]) as sent:
        for operation, arguments in OPERATIONS.items():
            with pytest.raises(expected):
                call(getattr(store.kv, operation), key, *arguments)
    assert len(sent) == 0


def test_a_bad_ttl_is_refused_before_the_backend_is_touched(store: Store, call: Call) -> None:
    call(store.kv.set, "k", "old")
    with CaptureQueriesContext(connections[store.alias]) as sent:
        for ttl in BAD_TTLS:
            with pytest.raises(InvalidTTL):
                call(store.kv.set, "k", "new", ttl)
            with pytest.raises(InvalidTTL):
                call(store.kv.add, "k", "new", ttl)
            with pytest.raises(InvalidTTL):
                call(store.kv.touch, "k", ttl)
    assert len(sent) == 0
    assert call(store.kv.get, "k") == "old"
