"""What the state machines share: two namespaces, each with a model and a time of its own, and what every facet has.

A machine does random operations to a store and to a few lines of plain Python, and compares. Before any of them time
may pass, or the purge run. Time passes by ``age()`` alone: the model counts minutes, every time to live ends on a half
minute and every age is whole, so the milliseconds that really pass never decide anything.

Set STATESTORE_PROPERTIES to a number to run each machine with that many examples, longer ones, instead of the few that
an ordinary run can wait for.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, cast

from django.db import connections
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from django_statestore import Store
from django_statestore.keys import encode_namespace
from django_statestore.services.purge import batches_of
from django_statestore.testing import age
from tests.calling import Call

from .grounds import Ground

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound="Model")

EXAMPLES, STEPS, MANY_STEPS = 20, 40, 100
SLOW = 20.0  # seconds that an example may really take

# Most of what happens goes to one key of one namespace, so that something happens to it.
KEYS = ["k", "K", "k "]
keys = st.sampled_from(["k", "k", *KEYS])
places = st.sampled_from([0, 0, 0, 1])

# What sets the two namespaces apart: siblings that look alike, and one below the other.
NAMES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    ((), ("k",)), (("n",), ("N",)), (("n",), ("n ",)), (("a_b",), ("aXb",)), (("%",), ("n",)), (("a", "b"), ("a/b",)),
]  # fmt: skip

# Minutes that pass before an operation, and whether the purge runs then.
MEANWHILE = [
    *[(0, False)] * 9, (1, False), (1, False), (2, False), (3, False), (5, False), (0, True), (3, True),
]  # fmt: skip

durations = st.sampled_from([1.5, 2.5, 4.5, 11.5])
ttls = st.none() | durations

# Which of the tokens that were ever given out is used, counted from the newest. It may long be stale.
recent = st.sampled_from([1, 1, 1, 1, 2, 2, 3, 5, 8])
# How: by the object that came with it, by the facet, or where it does not belong.
doors = st.sampled_from(["own", "own", "by token", "another key", "another namespace"])


class Model:
    """Be what should be true of one facet in one namespace. Instants and durations are in minutes."""

    def __init__(self) -> None:
        self.now = 0.0

    def after(self, ttl: float | None) -> float | None:
        return None if ttl is None else self.now + ttl

    def lies_ahead(self, instant: float | None) -> bool:
        """Tell whether an end is still to come; None: there is no end."""
        return instant is None or instant > self.now

    @abstractmethod
    def living(self) -> dict[str, tuple[int, float | None]]:
        """Return the bytes and the end of every live entry, by its key."""

    @abstractmethod
    def clear(self) -> None:
        """End every entry."""

    def purge(self) -> None:
        """Do what only a purge does: nothing, where what has expired is as good as gone anyway."""


@dataclass
class Place(Generic[M]):
    """Hold one namespace of the store, and its model."""

    store: Store
    model: M

    @property
    def namespace(self) -> str:
        """Return what the columns of that name hold."""
        return encode_namespace(self.store.names)


class FacetMachine(RuleBasedStateMachine, Generic[M]):
    """Run one facet against its model; a subclass names the facet and adds its operations."""

    ground: ClassVar[Ground]
    facet: ClassVar[str]
    keyed: ClassVar[bool] = True
    orphans: ClassVar[str] = ""
    """A statement that counts rows which belong to no other; empty: every row stands by itself."""
    meanwhile: ClassVar[list[tuple[int, bool]]] = MEANWHILE
    model: Callable[[], M]

    def __init__(self) -> None:
        super().__init__()
        self._root = self.ground.begin()
        self._serial = 0
        self.tokens: list[tuple[int, Any]] = []
        """What has a token, in the order of giving out, each with its place."""

    def teardown(self) -> None:
        self.ground.end()

    @initialize(names=st.sampled_from(NAMES), chance=st.randoms(use_true_random=False))
    def begin(self, names: tuple[tuple[str, ...], tuple[str, ...]], chance: Random) -> None:
        self.places = [Place(self._root.namespace(*name), type(self).model()) for name in names]
        self._chance = chance

    # -- for the subclasses -------------------------------------------------------------------------------------------

    def at(self, at: int) -> tuple[Any, M]:
        """Return the facet and the model of a place, perhaps some time later, perhaps after a purge."""
        place = self.places[at]
        minutes, purged = self._chance.choice(self.meanwhile)
        if minutes:
            note(f"# {minutes} minutes later:")
            self.pass_by(place, minutes)
        if purged:
            note("# after a purge:")
            self.purge()
        return self.facet_of(place), place.model

    def facet_of(self, place: Place[M]) -> Any:
        return getattr(place.store, self.facet)

    def pick(self, which: int) -> tuple[int, Any]:
        """Return a token's object, and the place where it belongs."""
        return self.tokens[-min(which, len(self.tokens))]

    def through(self, at: int, key: str, door: str) -> tuple[int, str]:
        """Return the place and the key at which a token that belongs to these is tried."""
        if door == "another key":
            return at, KEYS[KEYS.index(key) - 1]
        return (1 - at if door == "another namespace" else at), key

    def pass_by(self, place: Place[M], minutes: int) -> None:
        age(place.store, minutes * 60)
        place.model.now += minutes
        if self.ground.purges_itself:
            self.purge()

    def purge(self) -> None:
        size = self._chance.choice([500, 2, 1])
        for _, batch in batches_of(self._root):
            while batch(size) >= size:
                pass
        for place in self.places:
            place.model.purge()
            if self.ground.tabular:
                self.check_purged(place)

    def call(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call an operation, or now and then its twin, which takes much longer."""
        asynchronous = self._chance.choice([False, False, False, True])
        if asynchronous:
            note(f"# as a{operation.__name__}:")
        return Call(asynchronous=asynchronous)(operation, *args, **kwargs)

    def next_value(self) -> int:
        """Return a number that no other value of this example has."""
        self._serial += 1
        return self._serial

    def rows(self, select: str) -> dict[str, list[tuple[Any, ...]]]:
        """Return rows of both namespaces by their first column, the namespace; the rest of each row in its order."""
        found: dict[str, list[tuple[Any, ...]]] = {place.namespace: [] for place in self.places}
        with connections[self.ground.name].cursor() as cursor:
            cursor.execute(f"{select} where namespace in (%s, %s)", [*found])
            for namespace, *row in cursor.fetchall():
                found[namespace].append(tuple(row))
        return found

    def check_purged(self, place: Place[M]) -> None:
        """Look at the rows right after a purge: what may be gone is gone."""

    # -- what every facet has -----------------------------------------------------------------------------------------

    @rule(
        at=places, prefix=st.sampled_from(["", *KEYS, "kk"]), limit=st.integers(1, 3), clear=st.sampled_from([0, 0, 1])
    )
    def list_all(self, at: int, prefix: str, limit: int, clear: int) -> None:
        facet, model = self.at(at)
        assert self.call(facet.size) == len(model.living())
        if self.keyed:
            page = self.call(facet.scan, prefix, limit=limit)
            found = [item.key for item in page.items]
            while page.cursor is not None:
                page = self.call(facet.scan, prefix, page.cursor, limit)
                found += [item.key for item in page.items]
            assert found == sorted(key for key in model.living() if key.startswith(prefix))
        if clear:
            self.call(facet.clear)
            model.clear()
        if self.orphans and self.ground.tabular:
            with connections[self.ground.name].cursor() as cursor:
                cursor.execute(self.orphans)
                assert cursor.fetchone() == (0,)

    @invariant()
    def each_namespace_has_its_own_entries_and_no_others(self) -> None:
        for place in self.places:
            living = place.model.living()
            if not self.keyed:
                assert self.facet_of(place).size() == len(living)
                continue
            page = self.facet_of(place).scan()
            assert page.cursor is None
            assert [(item.key, item.size) for item in page.items] == [(key, living[key][0]) for key in sorted(living)]
            for item in page.items:
                end = living[item.key][1]
                assert close(item.expires_in, None if end is None else end - place.model.now), item.key


has_tokens = precondition(lambda machine: bool(machine.tokens))
has_rows = precondition(lambda machine: machine.ground.tabular)


def seconds(minutes: float | None) -> float | None:
    return None if minutes is None else minutes * 60


def close(left: float | None, minutes: float | None) -> bool:
    """Tell whether that many seconds are left of those minutes, give or take how long the example has taken."""
    if left is None or minutes is None:
        return left is None and minutes is None
    return minutes * 60 - SLOW < left <= minutes * 60


def check(machine: type[FacetMachine[Any]], ground: Ground) -> None:
    """Run a machine on one store; what fails is printed as the shortest program that does.

    Each run tries other programs. Where Hypothesis sees that it is in CI it tries the same ones each time, so that a
    change is not blamed for what another has broken; those runs that are asked for with a number are always new.
    """
    examples = int(os.environ.get("STATESTORE_PROPERTIES", 0))
    # A class of its own for each store: by its name Hypothesis remembers what has failed.
    bound = type(f"{machine.__name__}On{ground.name.title()}", (machine,), {"ground": ground})
    profile = settings(
        deadline=None,
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    if examples:
        profile = settings(profile, max_examples=examples, stateful_step_count=MANY_STEPS, derandomize=False)
    run_state_machine_as_test(cast("type[RuleBasedStateMachine]", bound), settings=profile)
