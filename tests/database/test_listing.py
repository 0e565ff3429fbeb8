"""size, clear, scan and the purge on a database: their statements and their batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore import Store
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


@pytest.fixture(params=FILL)
def name(request: pytest.FixtureRequest) -> str:
    """Name each facet that can be listed in turn."""
    return str(request.param)


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
