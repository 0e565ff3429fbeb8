"""dedup against what should be known of each event. A token stays in play when it is stale, and is tried elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis.stateful import Bundle, invariant, rule

from django_statestore.contracts.dedup import Claim
from django_statestore.contracts.tokens import token_digest
from django_statestore.models import DedupEntry

from .machine import FacetMachine, Model, Place, check, doors, durations, keys, places, seconds


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
    claims: Bundle[tuple[int, Claim]] = Bundle("claims")

    @rule(at=places, key=keys, ttl=durations)
    def seen(self, at: int, key: str, ttl: float) -> None:
        facet, model = self.at(at)
        known = model.known(key) is not None
        assert self.call(facet.seen, key, seconds(ttl)) is known
        if not known:
            model.events[key] = Event(None, model.now + ttl, None)

    @rule(target=claims, at=places, key=keys, ttl=durations, lease=durations)
    def claim(self, at: int, key: str, ttl: float, lease: float) -> Any:
        facet, model = self.at(at)
        state = model.state(key)
        claim: Claim = self.call(facet.claim, key, seconds(ttl), seconds(lease))
        assert (claim.key, claim.state, bool(claim)) == (key, state, state == "new")
        assert (claim.token is not None) is (state == "new")
        if state == "new":
            model.events[key] = Event(claim.token, model.now + lease, model.now + ttl)
        return at, claim

    @rule(claim=claims, door=doors)
    def confirm(self, claim: tuple[int, Claim], door: str) -> None:
        at, key = self.through(claim[0], claim[1].key, door)
        facet, model = self.at(at)
        event = model.mine(key, claim[1].token)
        if door == "own":
            done = self.call(claim[1].confirm)
        elif claim[1].token is not None:
            done = self.call(facet.confirm, key, claim[1].token)
        else:
            return
        assert done is (event is not None)
        if event:
            assert event.window_end is not None
            model.events[key] = Event(None, event.window_end, None)

    @rule(claim=claims, door=doors)
    def forget(self, claim: tuple[int, Claim], door: str) -> None:
        at, key = self.through(claim[0], claim[1].key, door)
        facet, model = self.at(at)
        event = model.mine(key, claim[1].token)
        if door == "own":
            done = self.call(claim[1].forget)
        elif claim[1].token is not None:
            done = self.call(facet.forget, key, claim[1].token)
        else:
            return
        assert done is (event is not None)
        if event:
            del model.events[key]

    @invariant()
    def every_event_knows_who_handles_it(self) -> None:
        rows = self.rows("select namespace, key, token from statestore_dedup")
        for place in self.places:
            tokens = {key: None if token is None else bytes(token) for key, token in rows[place.namespace]}
            for key, event in place.model.events.items():
                assert tokens[key] == (None if event.token is None else token_digest(event.token)), key

    def check_purged(self, place: Place[DedupModel]) -> None:
        rows = DedupEntry.objects.using(self.alias).filter(namespace=place.namespace)
        assert {row.key for row in rows} == set(place.model.events)


@pytest.mark.django_db(databases="__all__")
def test_dedup_agrees_with_what_is_known_of_each_event(alias: str) -> None:
    check(DedupMachine, alias)
