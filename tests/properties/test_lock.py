"""lock against who should hold it. A token stays in play when it is stale, and is tried at other doors."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis.stateful import invariant, rule

from django_statestore.contracts.lock import Lock
from django_statestore.contracts.tokens import token_digest
from django_statestore.flow import run
from django_statestore.models import LockEntry

from .grounds import Ground
from .machine import (
    MEANWHILE,
    FacetMachine,
    Model,
    Place,
    check,
    close,
    doors,
    durations,
    has_rows,
    has_tokens,
    keys,
    places,
    recent,
    seconds,
)

DAY = 1440  # minutes for which a lock that has ended is remembered
MUCH_LATER = 1500


@dataclass
class Holder:
    token: str
    fence: int
    end: float


class LockModel(Model):
    """Know the last holder of each lock, whether it holds it still or not, and the last fence, for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.holders: dict[str, Holder] = {}
        self.fences: dict[str, int] = {}

    def holder(self, key: str) -> Holder | None:
        holder = self.holders.get(key)
        return holder if holder is not None and holder.end > self.now else None

    def held(self, key: str, token: str) -> Holder | None:
        holder = self.holder(key)
        return holder if holder is not None and holder.token == token else None

    def acquired(self, key: str, lock: Lock, ttl: float) -> None:
        assert lock.fence > self.fences.get(key, 0), "a fence must rise"
        self.holders[key] = Holder(lock.token, lock.fence, self.now + ttl)
        self.fences[key] = lock.fence

    def living(self) -> dict[str, tuple[int, float | None]]:
        return {key: (0, holder.end) for key in self.holders if (holder := self.holder(key))}

    def clear(self) -> None:
        for holder in self.holders.values():
            holder.end = min(holder.end, self.now)

    def purge(self) -> None:
        self.holders = {key: holder for key, holder in self.holders.items() if holder.end + DAY > self.now}


class LockMachine(FacetMachine[LockModel]):
    facet = "lock"
    meanwhile: ClassVar = [*MEANWHILE, (MUCH_LATER, False), (MUCH_LATER, True)]
    model = LockModel

    def keep(self, at: int, lock: Lock, ttl: float) -> None:
        """Note who holds a lock now."""
        assert close(lock.expires_in, ttl)
        self.places[at].model.acquired(lock.key, lock, ttl)
        self.tokens.append((at, lock))

    @rule(at=places, key=keys, ttl=durations)
    def acquire(self, at: int, key: str, ttl: float) -> None:
        facet, model = self.at(at)
        lock: Lock | None = self.call(facet.acquire, key, seconds(ttl))
        assert (lock is None) is (model.holder(key) is not None)
        if lock is not None:
            self.keep(at, lock, ttl)

    @rule(at=places, key=keys, ttl=durations)
    def wrest(self, at: int, key: str, ttl: float) -> None:
        facet, model = self.at(at)
        assert self.call(facet.force_release, key) is (model.holder(key) is not None)
        lock: Lock | None = self.call(facet.acquire, key, seconds(ttl))
        assert lock is not None
        self.keep(at, lock, ttl)

    @has_tokens
    @rule(which=recent, ttl=durations)
    def repeat_an_acquire(self, which: int, ttl: float) -> None:
        at, before = self.pick(which)
        facet, model = self.at(at)
        mine, taken = model.held(before.key, before.token), model.holder(before.key) is not None
        again: Lock | None = run(facet.acquire_as_flow(before.key, seconds(ttl), before.token))
        assert (again is None) is (taken and mine is None)
        if again is not None and mine is not None:
            assert again.fence == mine.fence
            mine.end = model.now + ttl
        elif again is not None:
            self.keep(at, again, ttl)

    @has_tokens
    @rule(which=recent, door=doors)
    def release(self, which: int, door: str) -> None:
        home, lock = self.pick(which)
        at, key = self.through(home, lock.key, door)
        facet, model = self.at(at)
        mine = model.held(key, lock.token)
        done = self.call(lock.release) if door == "own" else self.call(facet.release, key, lock.token)
        assert done is (mine is not None)
        if mine:
            mine.end = model.now

    @has_tokens
    @rule(which=recent, door=doors, ttl=durations)
    def extend(self, which: int, door: str, ttl: float) -> None:
        home, lock = self.pick(which)
        at, key = self.through(home, lock.key, door)
        facet, model = self.at(at)
        mine = model.held(key, lock.token)
        if door == "own":
            longer = self.call(lock.extend, seconds(ttl))
            done = longer is not None
            if longer is not None:
                assert (longer.key, longer.token, longer.fence) == (key, lock.token, lock.fence)
                assert close(longer.expires_in, ttl)
        else:
            done = self.call(facet.extend, key, lock.token, seconds(ttl))
        assert done is (mine is not None)
        if mine:
            mine.end = model.now + ttl

    @rule(at=places, key=keys)
    def force_release(self, at: int, key: str) -> None:
        facet, model = self.at(at)
        holder = model.holder(key)
        assert self.call(facet.force_release, key) is (holder is not None)
        if holder:
            holder.end = model.now

    def pass_by(self, place: Place[LockModel], minutes: int) -> None:
        super().pass_by(place, minutes)
        time.sleep(0.002)  # a day without a single tick of the clock, out of which the next fence is made, is no day

    @invariant()
    @has_rows
    def every_lock_knows_its_holder(self) -> None:
        rows = self.rows("select namespace, key, token, fence from statestore_lock")
        for place in self.places:
            known = {key: (bytes(token), fence) for key, token, fence in rows[place.namespace]}
            for key, holder in place.model.holders.items():
                assert known.get(key) == (token_digest(holder.token), holder.fence), key

    def check_purged(self, place: Place[LockModel]) -> None:
        rows = LockEntry.objects.using(self.ground.name).filter(namespace=place.namespace)
        assert {row.key for row in rows} == set(place.model.holders)


@pytest.mark.django_db(databases="__all__")
def test_lock_agrees_with_a_list_of_holders(ground: Ground) -> None:
    check(LockMachine, ground)
