"""kv on a database: its rows, its statements, and the very instant of an expiry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore import Store
from django_statestore.exceptions import InvalidKey, InvalidKeyType, InvalidTTL
from django_statestore.keys import encode_namespace
from django_statestore.models import KVEntry
from django_statestore.testing import age
from django_statestore.testing.conformance.cases import BAD_KEYS, BAD_TTLS
from tests.calling import Call
from tests.database.clocks import clock_at

MISSING = object()


def rows(store: Store) -> int:
    """Count the rows of the namespace, whether they are alive or not."""
    return KVEntry.objects.using(store.alias).filter(namespace=encode_namespace(store.names)).count()


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


def test_consume_leaves_no_row(store: Store, call: Call) -> None:
    call(store.kv.set, "k", "token", ttl=60)
    assert call(store.kv.consume, "k") == "token"
    assert call(store.kv.consume, "k", MISSING) is MISSING
    assert call(store.kv.get, "k", MISSING) is MISSING
    assert rows(store) == 0


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
