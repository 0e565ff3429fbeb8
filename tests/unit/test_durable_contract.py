"""durable: the exclusive lease and the checkpoint, for foreign engines."""

import asyncio
import threading
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_statestore import Store, flow
from django_statestore.contracts.checkpoint import BudgetUse, Checkpoint
from django_statestore.exceptions import (
    InvalidKey,
    LeaseLost,
    TaskBusy,
    TransactionRefused,
    ValueNotSerializable,
)
from django_statestore.models import Task
from django_statestore.services.purge import purge
from django_statestore.testing import age
from tests.calling import Call


def checkpoint(**changes: object) -> Checkpoint:
    start = Checkpoint(
        definition_id="count",
        revision="1",
        next_step_index=0,
        attempt_count=0,
        max_attempts=3,
        deadline_at_ms=1_900_000_000_123,
        status="ready",
        state={"count": 0},
    )
    return replace(start, **changes)  # type: ignore[arg-type]


def test_an_id_that_was_never_saved_loads_as_none(store: Store, call: Call) -> None:
    assert call(store.durable.load, "t") is None
    with store.durable.exclusive("t"):
        assert store.durable.load("t") is None
    assert call(store.durable.load, "t") is None


def test_what_was_saved_is_loaded_field_by_field(store: Store, call: Call) -> None:
    budget = BudgetUse(max_calls=9, reserved_calls=3, max_calls_per_attempt=2)
    saved = checkpoint(state=[Decimal("1.10"), (1, 2), None], model_budget=budget, attempt_count=2)
    call(store.durable.save, "t", saved)
    assert call(store.durable.load, "t") == saved
    for status in ("running", "completed", "cancelled", "ready"):
        changed = checkpoint(status=status, next_step_index=4, deadline_at_ms=1_900_000_000_999)
        call(store.durable.save, "t", changed)
        assert call(store.durable.load, "t") == changed


def test_a_loaded_state_is_a_copy(store: Store, call: Call) -> None:
    call(store.durable.save, "t", checkpoint())
    loaded = call(store.durable.load, "t")
    assert loaded is not None
    loaded.state["count"] = 9
    assert call(store.durable.load, "t") == checkpoint()


def test_bad_input_is_refused_before_anything_is_written(store: Store, call: Call) -> None:
    with pytest.raises(InvalidKey):
        call(store.durable.save, "", checkpoint())
    with pytest.raises(ValueNotSerializable):
        call(store.durable.save, "t", checkpoint(state=object()))
    assert call(store.durable.load, "t") is None


def test_saves_under_a_lease_need_that_lease(store: Store, call: Call) -> None:
    claim = call(store.durable.claim, "t", 60)
    assert claim is not None
    assert claim.checkpoint is None
    assert call(store.durable.claim, "t", 60) is None
    with pytest.raises(TaskBusy):
        call(store.durable.save, "t", checkpoint())
    with pytest.raises(LeaseLost):
        call(store.durable.commit, "t", "a token that was guessed", checkpoint())
    call(store.durable.commit, "t", claim.token, checkpoint())
    assert call(store.durable.release, "t", claim.token) is True
    assert call(store.durable.release, "t", claim.token) is False
    assert call(store.durable.load, "t") == checkpoint()


def test_a_lease_that_another_took_over_writes_nothing(store: Store, call: Call) -> None:
    first = call(store.durable.claim, "t", 60)
    assert first is not None
    age(store, 61)
    second = call(store.durable.claim, "t", 60)
    assert second is not None
    assert second.fence > first.fence
    with pytest.raises(LeaseLost):
        call(store.durable.commit, "t", first.token, checkpoint())
    assert call(store.durable.renew, "t", first.token, 60) is False
    assert call(store.durable.release, "t", first.token) is False
    assert call(store.durable.renew, "t", second.token, 60) is True
    call(store.durable.commit, "t", second.token, checkpoint(attempt_count=1))
    assert call(store.durable.load, "t") == checkpoint(attempt_count=1)


def test_a_lapsed_lease_that_nobody_took_over_may_still_commit(store: Store, call: Call) -> None:
    claim = call(store.durable.claim, "t", 60)
    assert claim is not None
    age(store, 61)
    call(store.durable.commit, "t", claim.token, checkpoint())
    assert call(store.durable.load, "t") == checkpoint()


def test_exclusive_saves_under_its_own_lease_and_gives_it_back(store: Store) -> None:
    with store.durable.exclusive("t") as held:
        store.durable.save("t", checkpoint())
        assert not held.lost
        held.check()
        with pytest.raises(TaskBusy), store.durable.exclusive("t", wait=0):
            raise AssertionError
    with store.durable.exclusive("t", wait=0) as again:
        assert again.fence > held.fence
        assert store.durable.load("t") == checkpoint()


def test_exclusive_in_async_code(store: Store) -> None:
    async def work() -> None:
        async with store.durable.exclusive("t"):
            await store.durable.asave("t", checkpoint())
            with pytest.raises(TaskBusy):
                async with store.durable.exclusive("t"):
                    raise AssertionError
        assert await store.durable.aload("t") == checkpoint()

    async_to_sync(work)()


def test_other_flows_do_not_write_under_a_lease_of_this_one(store: Store) -> None:
    async def work() -> None:
        held = asyncio.Event()
        done = asyncio.Event()

        async def holder() -> None:
            async with store.durable.exclusive("t"):
                held.set()
                await done.wait()

        task = asyncio.create_task(holder())
        await held.wait()
        with pytest.raises(TaskBusy):
            await store.durable.asave("t", checkpoint())
        done.set()
        await task
        await store.durable.asave("t", checkpoint())

    async_to_sync(work)()


def test_a_failing_body_does_not_poison_the_next(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.durable.exclusive("t"):
        raise ZeroDivisionError
    with store.durable.exclusive("t", wait=0):
        pass


def test_a_cancelled_entry_leaves_nothing_held(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    load, claimed = store.backend.durable_load, threading.Event()  # type: ignore[attr-defined]

    def slow_load(entry: object) -> Any:
        claimed.set()
        return flow.Call(lambda: (threading.Event().wait(0.3), load(entry).run())[1])

    async def enter() -> None:
        async with store.durable.exclusive("t"):
            raise AssertionError

    async def cancel() -> None:
        task = asyncio.create_task(enter())
        while not claimed.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with monkeypatch.context() as patch:
        patch.setattr(store.backend, "durable_load", slow_load)
        async_to_sync(cancel)()
    with store.durable.exclusive("t", wait=0):
        pass


def test_a_lease_lost_inside_exclusive_is_told(store: Store) -> None:
    with pytest.raises(LeaseLost), store.durable.exclusive("t"):
        age(store, 61)
        assert store.durable.claim("t") is not None
    with pytest.raises(ZeroDivisionError), store.durable.exclusive("u"):
        age(store, 61)
        assert store.durable.claim("u") is not None
        raise ZeroDivisionError


def test_a_save_whose_lease_was_lost_raises(store: Store) -> None:
    other = store.durable
    with pytest.raises(LeaseLost), store.durable.exclusive("t"):
        age(store, 61)
        assert other.claim("t") is not None
        store.durable.save("t", checkpoint())


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_exclusive_waits_for_its_turn(store: Store) -> None:
    order: list[str] = []
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with store.durable.exclusive("t"):
            inside.set()
            leave.wait(10)
            order.append("first")
        store.backend.release_thread()  # type: ignore[attr-defined]

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(10)
    leave.set()
    with store.durable.exclusive("t", wait=10):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_it_is_refused_inside_an_open_transaction(store: Store, call: Call) -> None:
    with transaction.atomic(using=store.alias):
        for attempt in (
            lambda: call(store.durable.save, "t", checkpoint()),
            lambda: call(store.durable.claim, "t"),
            lambda: call(store.durable.commit, "t", "token", checkpoint()),
            lambda: store.durable.exclusive("t").__enter__(),
        ):
            with pytest.raises(TransactionRefused):
                attempt()
    assert call(store.durable.load, "t") is None


def test_ids_are_per_namespace(store: Store, call: Call) -> None:
    call(store.durable.save, "t", checkpoint())
    assert call(store.namespace("below").durable.load, "t") is None


def test_an_id_that_was_locked_and_never_saved_is_purged_a_day_later(store: Store, alias: str) -> None:
    with store.durable.exclusive("locked"):
        pass
    store.durable.save("saved", checkpoint())
    age(store, 86_400 - 60)
    purge(alias)
    rows = Task.objects.using(alias).filter(namespace=store.names[0])
    assert rows.count() == 2
    age(store, 120)
    purge(alias)
    assert [row.key for row in rows.all()] == ["saved"]


def test_tokens_are_kept_as_digests(store: Store, alias: str) -> None:
    claim = store.durable.claim("t")
    assert claim is not None
    row = Task.objects.using(alias).get(namespace=store.names[0])
    assert claim.token not in repr(claim)
    assert claim.token not in "".join(str(value) for value in vars(row).values())
    assert datetime.now(UTC) > row.created_at
