"""handoff against a dictionary of states by id."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, multiple, rule

from django_statestore.models import HandoffEntry
from tests.unit.values import same

from .grounds import Ground
from .machine import KEYS, FacetMachine, Model, Place, check, durations, places, seconds

states = st.sampled_from([{}, {"a": None}, {"a": 0}, {"a": 0.0, "b": ["é"]}, {"": {"a": False}}])


class HandoffModel(Model):
    def __init__(self) -> None:
        super().__init__()
        self.states: dict[str, tuple[dict[str, Any], float]] = {}

    def get(self, state_id: str) -> dict[str, Any] | None:
        state, end = self.states.get(state_id, (None, 0.0))
        return state if end > self.now else None

    def living(self) -> dict[str, tuple[int, float | None]]:
        return {state_id: (0, end) for state_id, (_, end) in self.states.items() if end > self.now}

    def clear(self) -> None:
        self.states.clear()


class HandoffMachine(FacetMachine[HandoffModel]):
    facet = "handoff"
    keyed = False
    model = HandoffModel
    ids: Bundle[str] = Bundle("ids")

    @initialize(target=ids)
    def ids_of_ones_own(self) -> Any:
        return multiple(*KEYS)

    @rule(at=places, state_id=ids, state=states, ttl=durations)
    def set(self, at: int, state_id: str, state: dict[str, Any], ttl: float) -> None:
        facet, model = self.at(at)
        self.call(facet.set, state_id, state, seconds(ttl))
        model.states[state_id] = (state, model.now + ttl)

    @rule(target=ids, at=places, state=states, ttl=durations)
    def issue(self, at: int, state: dict[str, Any], ttl: float) -> Any:
        facet, model = self.at(at)
        state_id: str = self.call(facet.issue, state, seconds(ttl))
        assert not any(state_id in place.model.states for place in self.places)
        model.states[state_id] = (state, model.now + ttl)
        return state_id

    @rule(at=places, state_id=ids)
    def get(self, at: int, state_id: str) -> None:
        facet, model = self.at(at)
        assert same(self.call(facet.get, state_id), model.get(state_id))

    @rule(at=places, state_id=ids)
    def get_and_delete(self, at: int, state_id: str) -> None:
        facet, model = self.at(at)
        assert same(self.call(facet.get_and_delete, state_id), model.get(state_id))
        model.states.pop(state_id, None)

    @rule(at=places, state_id=ids)
    def delete(self, at: int, state_id: str) -> None:
        facet, model = self.at(at)
        assert self.call(facet.delete, state_id) is (model.get(state_id) is not None)
        model.states.pop(state_id, None)

    @invariant()
    def every_id_leads_to_its_state_and_nowhere_else(self) -> None:
        known = {state_id for place in self.places for state_id in place.model.living()}
        for place in self.places:
            for state_id in known:
                assert same(self.facet_of(place).get(state_id), place.model.get(state_id))

    def check_purged(self, place: Place[HandoffModel]) -> None:
        rows = HandoffEntry.objects.using(self.ground.name).filter(namespace=place.namespace)
        assert len(rows) == len(place.model.living())


@pytest.mark.django_db(databases="__all__")
def test_handoff_agrees_with_a_dictionary(ground: Ground) -> None:
    check(HandoffMachine, ground)
