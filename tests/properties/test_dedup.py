"""dedup against what should be known of each event. A token stays in play when it is stale, and is tried elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from django_statestore.contracts.dedup import Claim
from django_statestore.contracts.tokens import token_digest
from django_statestore.models import DedupEntry

from .grounds import Ground
from .machine import (
    FacetMachine,
    Model,
    Place,
    check,
    doors,
    durations,
    has_rows,
    has_tokens,
    keys,
    places,
    recent,
    seconds,
)


@dataclass
class Event:
    """Be what is known of an event: while a token is there, a claim that is pending, with the end of its window."""

    token: str | None
    end: float
    window_end: float | None


class DedupModel(Model):
    def __init__(self) -> None:
        super().__init__()
        self.events: dict[str, Event] = {}

    def known(self, key: str) -> Event | None:
        event = self.events.get(key)
        return event if event is not None and event.end > self.now else None

    def state(self, key: str) -> str:
        event = self.known(key)
        if event is None:
            return "new"
        return "done" if event.token is None else "pending"

    def mine(self, key: str, token: str | None) -> Event | None:
        event = self.events.get(key)
        if event is None or token is None or event.token != token:
            return None
        return event if event.end > self.now or self.window_lasts(event) else None

    def window_lasts(self, event: Event) -> bool:
        return event.window_end is not None and event.window_end > self.now

    def living(self) -> dict[str, tuple[int, float | None]]:
        return {key: (0, event.end) for key in self.events if (event := self.known(key))}

    def clear(self) -> None:
        self.events.clear()

    def purge(self) -> None:
        kept = {key: event for key, event in self.events.items() if event.end > self.now or self.window_lasts(event)}
        self.events = kept


class DedupMachine(FacetMachine[DedupModel]):
    facet = "dedup"
    model = DedupModel

    @rule(at=places, key=keys, ttl=durations)
    def seen(self, at: int, key: str, ttl: float) -> None:
        facet, model = self.at(at)
        known = model.known(key) is not None
        assert self.call(facet.seen, key, seconds(ttl)) is known
        if not known:
            model.events[key] = Event(None, model.now + ttl, None)

    @rule(at=places, key=keys, ttl=durations, lease=durations)
    def claim(self, at: int, key: str, ttl: float, lease: float) -> None:
        facet, model = self.at(at)
        state = model.state(key)
        claim: Claim = self.call(facet.claim, key, seconds(ttl), seconds(lease))
        assert (claim.key, claim.state, bool(claim)) == (key, state, state == "new")
        if state == "new":
            model.events[key] = Event(claim.token, model.now + lease, model.now + ttl)
            self.tokens.append((at, claim))
        else:
            assert claim.token is None
            assert self.call(claim.confirm) is self.call(claim.forget) is False

    @has_tokens
    @rule(which=recent, door=doors, how=st.sampled_from(["confirm", "forget"]))
    def settle(self, which: int, door: str, how: str) -> None:
        home, claim = self.pick(which)
        at, key = self.through(home, claim.key, door)
        facet, model = self.at(at)
        event = model.mine(key, claim.token)
        done = self.call(getattr(claim, how)) if door == "own" else self.call(getattr(facet, how), key, claim.token)
        assert done is (event is not None)
        if event and how == "confirm":
            assert event.window_end is not None
            model.events[key] = Event(None, event.window_end, None)
        elif event:
            del model.events[key]

    @invariant()
    @has_rows
    def every_event_knows_who_handles_it(self) -> None:
        rows = self.rows("select namespace, key, token from statestore_dedup")
        for place in self.places:
            tokens = {key: None if token is None else bytes(token) for key, token in rows[place.namespace]}
            for key, event in place.model.events.items():
                assert tokens[key] == (None if event.token is None else token_digest(event.token)), key

    def check_purged(self, place: Place[DedupModel]) -> None:
        rows = DedupEntry.objects.using(self.ground.name).filter(namespace=place.namespace)
        assert {row.key for row in rows} == set(place.model.events)


@pytest.mark.django_db(databases="__all__")
def test_dedup_agrees_with_what_is_known_of_each_event(ground: Ground) -> None:
    check(DedupMachine, ground)
