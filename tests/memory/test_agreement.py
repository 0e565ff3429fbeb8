"""Memory decides about durable tasks as a database does, whatever comes in whatever order, late and doubled."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_statestore import stores
from django_statestore.backends.memory import MemoryBackend
from tests.memory.drawn import OPERATIONS
from tests.memory.sides import KEYS, Apply, Side, check_alike, told
from tests.memory.standings import AFTERWARDS, CALLS, STANDINGS


class Both:
    """Ask two stores the same, and check after each call that they have answered alike and show the same."""

    def __init__(self, one: Side, other: Side) -> None:
        self.sides = one, other
        self.fences: dict[str, tuple[int, int]] = {}

    def see(self, *keys: str) -> None:
        """Look at the tasks that are compared after each call from now on."""
        self.fences = {key: check_alike(self.sides, key) for key in keys}

    def ask(self, step: Apply) -> Any:
        """Do the same to both, and return what they answered."""
        one, other = [told(step(side)) for side in self.sides]
        assert one == other
        return one

    def do(self, step: Apply) -> Any:
        answer = self.ask(step)
        before = self.fences
        self.see(*before)
        for key, fences in self.fences.items():
            raised = [now > then for now, then in zip(fences, before[key], strict=True)]
            assert raised[0] == raised[1], "the fence was raised by one, and not by the other"
        return answer

    def end(self) -> None:
        for key in KEYS:
            check_alike(self.sides, key)
            one, other = [side.all_of(key) for side in self.sides]
            assert one == other


@contextmanager
def both(alias: str = "default") -> Iterator[Both]:
    create = getattr(transaction, "savepoint_create", transaction.savepoint)  # its name from Django 6.1 on
    savepoint, name = create(using=alias), f"agree-{uuid.uuid4().hex[:12]}"
    try:
        yield Both(Side(stores[alias].namespace(name)), Side(MemoryBackend().store().namespace(name)))
    finally:
        transaction.savepoint_rollback(savepoint, using=alias)


@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
@pytest.mark.parametrize("standing", STANDINGS)
def test_a_task_takes_each_call_in_memory_as_on_a_database(alias: str, standing: str) -> None:
    calls = list(CALLS)
    while calls:
        with both(alias) as stores:
            for begin in STANDINGS[standing]:
                stores.ask(begin)
            stores.see("a")
            until = time.monotonic() + 2
            while calls and time.monotonic() < until:
                if take(stores, standing, calls.pop(0)):
                    break


def take(stores: Both, standing: str, call: str) -> bool:
    """Let the task take one call, and look at it from all sides if it says anything but no."""
    try:
        if not stores.do(CALLS[call]):
            return False
        stores.end()
        for after in AFTERWARDS:
            stores.do(after)
        stores.end()
    except AssertionError as error:
        error.add_note(f"{standing}: {call}")
        raise
    return True


@pytest.mark.django_db
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(begun=st.sampled_from(list(STANDINGS)), steps=st.lists(OPERATIONS, min_size=10, max_size=30))
def test_memory_and_sqlite_answer_alike_and_show_the_same(begun: str, steps: list[Apply]) -> None:
    with both() as stores:
        stores.see(*KEYS)
        for step in (*STANDINGS[begun], *steps):
            stores.do(step)
        stores.end()
