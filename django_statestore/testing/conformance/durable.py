"""durable: the exclusive lease and the checkpoint, for foreign engines."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from ...contracts.checkpoint import BudgetUse, Checkpoint
from ...contracts.durable import DurableClaim
from ...contracts.exclusive import HeldTask
from ...exceptions import (
    CheckpointInvalid,
    InvalidArgument,
    InvalidKey,
    InvalidTTL,
    LeaseLost,
    TaskBusy,
    ValueNotSerializable,
)
from ...store import Store
from .base import Conformance, later, purge
from .calling import Call, at_once
from .cases import BAD_KEYS, BAD_TTLS, ODD_KEYS, UNLIKE_KEYS

DAY = 86_400


def checkpoint(**changes: Any) -> Checkpoint:
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
    return replace(start, **changes)


def claim(store: Store, call: Call, lease: float = 60) -> DurableClaim:
    claimed = call(store.durable.claim, "t", lease)
    assert claimed is not None
    return claimed


class DurableConformance(Conformance):
    """Hold a backend to the rules of ``store.durable``."""

    # -- the checkpoint -----------------------------------------------------------------------------------------------

    def test_an_id_that_was_never_saved_loads_as_none(self, store: Store, call: Call) -> None:
        assert call(store.durable.load, "t") is None
        with store.durable.exclusive("t"):
            assert call(store.durable.load, "t") is None
        assert call(store.durable.load, "t") is None

    def test_what_was_saved_is_loaded_field_by_field(self, store: Store, call: Call) -> None:
        budget = BudgetUse(max_calls=9, reserved_calls=3, max_calls_per_attempt=2)
        saved = checkpoint(state=[Decimal("1.10"), (1, 2), None], model_budget=budget, attempt_count=2)
        call(store.durable.save, "t", saved)
        assert call(store.durable.load, "t") == saved
        for status in ("running", "completed", "cancelled", "ready"):
            changed = checkpoint(status=status, next_step_index=4, deadline_at_ms=1_900_000_000_999)
            call(store.durable.save, "t", changed)
            assert call(store.durable.load, "t") == changed

    @pytest.mark.parametrize(
        "changes",
        [
            {"deadline_at_ms": 0}, {"deadline_at_ms": 253_402_300_799_999}, {"deadline_at_ms": 1},
            {"next_step_index": 2**31 - 1, "max_attempts": 2**31 - 1, "attempt_count": 2**31 - 1},
            {"definition_id": "a b\u00e9\u20ac", "revision": "r" * 40}, {"state": None}, {"max_attempts": 0},
            {"model_budget": BudgetUse(max_calls=0, reserved_calls=0, max_calls_per_attempt=0)},
            {"model_budget": BudgetUse(max_calls=2, reserved_calls=2, max_calls_per_attempt=0)},
            {"model_budget": BudgetUse(max_calls=1, reserved_calls=0, max_calls_per_attempt=2**31 - 1)},
        ],
        ids=str,
    )  # fmt: skip
    def test_bounds_of_a_checkpoint_are_kept(self, store: Store, call: Call, changes: dict[str, Any]) -> None:
        saved = checkpoint(**changes)
        call(store.durable.save, "t", saved)
        assert call(store.durable.load, "t") == saved

    def test_a_budget_may_go_with_a_later_save(self, store: Store, call: Call) -> None:
        budget = BudgetUse(max_calls=9, reserved_calls=3, max_calls_per_attempt=2)
        for saved in (checkpoint(model_budget=budget), checkpoint()):
            call(store.durable.save, "t", saved)
            assert call(store.durable.load, "t") == saved

    def test_a_loaded_state_is_a_copy(self, store: Store, call: Call) -> None:
        state = {"count": 0}
        call(store.durable.save, "t", checkpoint(state=state))
        state["count"] = 8
        loaded = call(store.durable.load, "t")
        assert loaded is not None
        loaded.state["count"] = 9
        assert call(store.durable.load, "t") == checkpoint()

    def test_bad_input_is_refused_before_anything_is_written(self, store: Store, call: Call) -> None:
        operations: dict[str, list[Any]] = {
            "load": [], "save": [checkpoint()], "claim": [], "commit": ["x", checkpoint()], "renew": ["x"],
            "release": ["x"],
        }  # fmt: skip
        for key in BAD_KEYS:
            for operation, arguments in operations.items():
                with pytest.raises(InvalidKey):
                    call(getattr(store.durable, operation), key, *arguments)
        for lease in BAD_TTLS:
            with pytest.raises(InvalidTTL, match="lease"):
                call(store.durable.claim, "t", lease)
            with pytest.raises(InvalidTTL, match="lease"):
                call(store.durable.renew, "t", "x", lease)
        wrong: Any
        for wrong in ("", None, b"x", 1):
            with pytest.raises(InvalidArgument, match="token"):
                call(store.durable.release, "t", wrong)
        with pytest.raises(ValueNotSerializable):
            call(store.durable.save, "t", checkpoint(state=object()))
        for document in (checkpoint().to_json(), None):
            with pytest.raises(CheckpointInvalid, match="expected a Checkpoint"):
                call(store.durable.save, "t", document)  # type: ignore[arg-type]
            with pytest.raises(CheckpointInvalid, match="expected a Checkpoint"):
                call(store.durable.commit, "t", "x", document)  # type: ignore[arg-type]
        assert call(store.durable.load, "t") is None

    def test_ids_are_compared_exactly(self, store: Store, call: Call) -> None:
        ids = UNLIKE_KEYS + ODD_KEYS
        for each in ids:
            call(store.durable.save, each, checkpoint(state=each))
        for each in ids:
            assert call(store.durable.load, each) == checkpoint(state=each)

    def test_ids_are_per_namespace(self, store: Store, call: Call) -> None:
        call(store.durable.save, "t", checkpoint())
        held = claim(store, call)
        below = store.namespace("below")
        assert call(below.durable.load, "t") is None
        assert call(below.durable.release, "t", held.token) is False
        assert call(below.durable.claim, "t") is not None

    def test_a_checkpoint_does_not_expire(self, store: Store, call: Call) -> None:
        call(store.durable.save, "t", checkpoint())
        later(store, 10 * DAY)
        purge(store)
        loaded = call(store.durable.load, "t")
        assert loaded is not None  # only its deadline has come nearer
        assert replace(loaded, deadline_at_ms=checkpoint().deadline_at_ms) == checkpoint()

    # -- the lease ----------------------------------------------------------------------------------------------------

    def test_one_has_the_lease_and_the_next_gets_none_at_once(self, store: Store, call: Call) -> None:
        held = claim(store, call)
        assert (held.id, held.checkpoint) == ("t", None)
        assert call(store.durable.claim, "t", 60) is None
        assert call(store.durable.release, "t", held.token) is True
        assert call(store.durable.release, "t", held.token) is False
        assert claim(store, call).fence > held.fence

    def test_a_claim_gives_what_was_saved_last(self, store: Store, call: Call) -> None:
        call(store.durable.save, "t", checkpoint(attempt_count=2))
        assert claim(store, call).checkpoint == checkpoint(attempt_count=2)

    def test_saves_under_a_lease_need_that_lease(self, store: Store, call: Call) -> None:
        held = claim(store, call)
        with pytest.raises(TaskBusy):
            call(store.durable.save, "t", checkpoint())
        with pytest.raises(LeaseLost):
            call(store.durable.commit, "t", "a token that was guessed", checkpoint())
        assert call(store.durable.load, "t") is None
        call(store.durable.commit, "t", held.token, checkpoint())
        assert call(store.durable.load, "t") == checkpoint()

    def test_a_lease_that_was_given_back_writes_nothing(self, store: Store, call: Call) -> None:
        held = claim(store, call)
        assert call(store.durable.release, "t", held.token) is True
        with pytest.raises(LeaseLost):
            call(store.durable.commit, "t", held.token, checkpoint())
        assert call(store.durable.renew, "t", held.token, 60) is False
        assert call(store.durable.load, "t") is None

    def test_a_lease_that_another_took_over_writes_nothing(self, store: Store, call: Call) -> None:
        first = claim(store, call)
        later(store, 61)
        second = claim(store, call)
        assert second.fence > first.fence
        with pytest.raises(LeaseLost):
            call(store.durable.commit, "t", first.token, checkpoint())
        assert call(store.durable.renew, "t", first.token, 600) is False
        assert call(store.durable.release, "t", first.token) is False
        assert call(store.durable.claim, "t", 60) is None
        assert call(store.durable.renew, "t", second.token, 60) is True
        call(store.durable.commit, "t", second.token, checkpoint(attempt_count=1))
        assert call(store.durable.load, "t") == checkpoint(attempt_count=1)

    def test_a_lapsed_lease_that_nobody_took_over_may_still_commit(self, store: Store, call: Call) -> None:
        held = claim(store, call)
        later(store, 61)
        call(store.durable.commit, "t", held.token, checkpoint())
        assert call(store.durable.load, "t") == checkpoint()

    def test_a_lapsed_lease_is_in_nobodys_way(self, store: Store, call: Call) -> None:
        held = claim(store, call)
        later(store, 61)
        call(store.durable.save, "t", checkpoint())
        assert call(store.durable.load, "t") == checkpoint()
        again = claim(store, call)
        assert again.fence > held.fence

    def test_renew_sets_the_lease_from_now_on(self, store: Store, call: Call) -> None:
        held = claim(store, call, lease=60)
        later(store, 40)
        assert call(store.durable.renew, "t", held.token, 60) is True
        later(store, 40)
        assert call(store.durable.claim, "t") is None
        later(store, 21)
        assert call(store.durable.claim, "t") is not None

    def test_a_commit_keeps_the_lease_and_its_fence(self, store: Store, call: Call) -> None:
        held = claim(store, call)
        for count in range(3):
            call(store.durable.commit, "t", held.token, checkpoint(attempt_count=count))
            assert call(store.durable.claim, "t") is None
        again = call.flow(store.durable.claim_as_flow("t", 60, held.token))
        assert again is not None
        assert (again.fence, again.checkpoint) == (held.fence, checkpoint(attempt_count=2))

    def test_the_same_token_recognises_its_own_lease(self, store: Store, call: Call) -> None:
        """A repeat after a lost answer: the fence stays, the lease starts anew."""
        held = claim(store, call)
        later(store, 40)
        again = call.flow(store.durable.claim_as_flow("t", 60, held.token))
        assert again is not None
        assert again.fence == held.fence
        later(store, 40)
        assert call(store.durable.claim, "t") is None

    def test_fences_rise_over_release_lapse_and_purge(self, store: Store, call: Call) -> None:
        fences = []
        for ending in ["release", "lapse", "purge"] * 3:
            held = claim(store, call)
            fences.append(held.fence)
            if ending == "release":
                call(store.durable.release, "t", held.token)
            else:
                later(store, 61 if ending == "lapse" else 2 * DAY)
            if ending == "purge":
                purge(store)
                time.sleep(0.002)  # two days without a tick of the clock, out of which the fence is made, are none
        assert all(earlier < afterwards for earlier, afterwards in itertools.pairwise(fences))
        assert 0 < fences[0] < fences[-1] < 2**53

    @pytest.mark.usefixtures("commits")
    def test_renewals_from_another_thread_keep_the_lease(self, store: Store, call: Call) -> None:
        def body(held: HeldTask) -> None:
            later(store, 40)
            assert at_once([lambda: held.renew_all([held])], held.close) == [[True]]
            later(store, 40)
            assert store.durable.claim("t") is None

        call.block(store.durable.exclusive("t", lease=60), body)

    # -- exclusive ----------------------------------------------------------------------------------------------------

    def test_exclusive_saves_under_its_own_lease_and_gives_it_back(self, store: Store) -> None:
        with store.durable.exclusive("t") as held:
            store.durable.save("t", checkpoint())
            assert not held.lost
            held.check()
            with pytest.raises(TaskBusy), store.durable.exclusive("t", wait=0):
                raise AssertionError
        with store.durable.exclusive("t", wait=0) as again:
            assert again.fence > held.fence
            assert store.durable.load("t") == checkpoint()

    def test_exclusive_in_async_code(self, store: Store) -> None:
        async def work() -> None:
            async with store.durable.exclusive("t"):
                await store.durable.asave("t", checkpoint())
                with pytest.raises(TaskBusy):
                    async with store.durable.exclusive("t"):
                        raise AssertionError
            assert await store.durable.aload("t") == checkpoint()

        async_to_sync(work)()

    def test_other_flows_do_not_write_under_a_lease_of_this_one(self, store: Store) -> None:
        async def work() -> None:
            held, done = asyncio.Event(), asyncio.Event()

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

    def test_the_block_is_not_run_while_another_holds_the_lease(self, store: Store, call: Call) -> None:
        held = claim(store, call)
        for wait in (0, 0.05):
            with pytest.raises(TaskBusy, match="'t'"):
                call.block(store.durable.exclusive("t", wait=wait), lambda held: pytest.fail("the body ran"))
        assert call(store.durable.release, "t", held.token) is True

    def test_a_failing_body_does_not_poison_the_next(self, store: Store, call: Call) -> None:
        def fail(held: HeldTask) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            call.block(store.durable.exclusive("t"), fail)
        call.block(store.durable.exclusive("t", wait=0), lambda held: held.check())

    @pytest.mark.parametrize("fails", [False, True], ids=["clean", "failing"])
    def test_a_lease_lost_inside_exclusive_is_told_unless_the_body_fails(
        self, store: Store, call: Call, fails: bool
    ) -> None:
        def body(held: HeldTask) -> None:
            later(store, 61)
            assert store.durable.claim("t") is not None
            if fails:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError if fails else LeaseLost):
            call.block(store.durable.exclusive("t"), body)
        assert store.durable.claim("t") is None

    def test_a_save_whose_lease_was_lost_raises_and_writes_nothing(self, store: Store) -> None:
        saved = []
        with pytest.raises(LeaseLost), store.durable.exclusive("t"):
            later(store, 61)
            assert store.durable.claim("t") is not None
            store.durable.save("t", checkpoint())
            saved.append("it was saved")
        assert not saved
        assert store.durable.load("t") is None

    @pytest.mark.usefixtures("commits")
    def test_exclusive_waits_for_its_turn(self, store: Store) -> None:
        order: list[str] = []
        inside, leave = threading.Event(), threading.Event()

        def first() -> None:
            with store.durable.exclusive("t"):
                inside.set()
                leave.wait(60)
                order.append("first")

        def second() -> None:
            assert inside.wait(60)
            leave.set()
            with store.durable.exclusive("t", wait=60):
                order.append("second")

        at_once([first, second], lambda: self.end_thread(store))
        assert order == ["first", "second"]
