"""kv against a dictionary."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from django_statestore.models import KVEntry
from tests.unit.values import same

from .grounds import Ground
from .machine import FacetMachine, Model, Place, check, keys, places, seconds, ttls

MISSING = object()

values = st.sampled_from([None, 0, 1, True, False, 1.0, "", "text", "é\0", [], [1, [2]], {}, {"a": None}])


class KVModel(Model):
    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, tuple[Any, float | None]] = {}

    def has(self, key: str) -> bool:
        return key in self.entries and self.lies_ahead(self.entries[key][1])

    def get(self, key: str) -> Any:
        return self.entries[key][0] if self.has(key) else MISSING

    def set(self, key: str, value: Any, ttl: float | None) -> None:
        self.entries[key] = (value, self.after(ttl))

    def living(self) -> dict[str, tuple[int, float | None]]:
        alive = {key: entry for key, entry in self.entries.items() if self.has(key)}
        return {key: (len(json.dumps(value, separators=(",", ":"))), end) for key, (value, end) in alive.items()}

    def clear(self) -> None:
        self.entries.clear()


class KVMachine(FacetMachine[KVModel]):
    facet = "kv"
    model = KVModel

    @rule(at=places, key=keys, value=values, ttl=ttls)
    def set(self, at: int, key: str, value: Any, ttl: float | None) -> None:
        facet, model = self.at(at)
        self.call(facet.set, key, value, seconds(ttl))
        model.set(key, value, ttl)

    @rule(at=places, key=keys, value=values, ttl=ttls)
    def add(self, at: int, key: str, value: Any, ttl: float | None) -> None:
        facet, model = self.at(at)
        free = not model.has(key)
        assert self.call(facet.add, key, value, seconds(ttl)) is free
        if free:
            model.set(key, value, ttl)

    @rule(at=places, key=keys)
    def get(self, at: int, key: str) -> None:
        facet, model = self.at(at)
        assert same(self.call(facet.get, key, MISSING), model.get(key))

    @rule(at=places, key=keys)
    def consume(self, at: int, key: str) -> None:
        facet, model = self.at(at)
        assert same(self.call(facet.consume, key, MISSING), model.get(key))
        model.entries.pop(key, None)

    @rule(at=places, key=keys)
    def delete(self, at: int, key: str) -> None:
        facet, model = self.at(at)
        assert self.call(facet.delete, key) is model.has(key)
        model.entries.pop(key, None)

    @rule(at=places, key=keys, ttl=ttls)
    def touch(self, at: int, key: str, ttl: float | None) -> None:
        facet, model = self.at(at)
        assert self.call(facet.touch, key, seconds(ttl)) is model.has(key)
        if model.has(key):
            model.set(key, model.get(key), ttl)

    @invariant()
    def every_key_has_its_value(self) -> None:
        for place in self.places:
            for key in place.model.entries:
                assert same(self.facet_of(place).get(key, MISSING), place.model.get(key)), key

    def check_purged(self, place: Place[KVModel]) -> None:
        rows = KVEntry.objects.using(self.ground.name).filter(namespace=place.namespace)
        assert {row.key for row in rows} == set(place.model.living())


@pytest.mark.django_db(databases="__all__")
def test_kv_agrees_with_a_dictionary(ground: Ground) -> None:
    check(KVMachine, ground)
