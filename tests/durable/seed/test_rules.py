"""What the contract says of attempts, budgets, deadlines and mismatches, as a foreign engine lives by it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_statestore import Store
from django_statestore.exceptions import CheckpointInvalid, LeaseLost, TaskBusy
from django_statestore.testing import age
from tests.calling import Call

from .counting import TASK_ID, count_up, counting, demo_checkpoint, is_state
from .interpreter import Context, Died, Refused, SeedTask, Step

BUDGET = {"maxCalls": 5, "reservedCalls": 0, "maxCallsPerAttempt": 2}


def dying(deaths: int, steps: int = 1) -> SeedTask:
    """Return a task whose first runs die inside their step."""
    left = [deaths]

    def run(state: Any, context: Context) -> Any:
        context.app.append(state["count"])
        if left[0]:
            left[0] -= 1
            raise Died
        return count_up(state, context)

    return SeedTask("count", "1", is_state, [Step(f"{number}", "safe", run) for number in range(steps)])


def test_a_task_that_was_never_saved_cannot_be_run(store: Store, call: Call) -> None:
    with pytest.raises(Refused, match="never saved"):
        call(counting().run, TASK_ID, store)
    assert call(store.durable.load, TASK_ID) is None


def test_an_attempt_is_spent_durably_before_the_step_runs(store: Store, call: Call) -> None:
    seen: list[Any] = []

    def note(saved: Any) -> None:
        seen.append((saved.status, saved.attempt_count, saved.next_step_index))

    def look(state: Any, context: Context) -> Any:
        note(store.durable.load(TASK_ID))
        return count_up(state, context)

    async def alook(state: Any, context: Context) -> Any:
        note(await store.durable.aload(TASK_ID))
        return count_up(state, context)

    call(store.durable.save, TASK_ID, demo_checkpoint())
    step = alook if call.asynchronous else look
    task = SeedTask("count", "1", is_state, [Step("a", "safe", step), Step("b", "safe", step)])
    call(task.run, TASK_ID, store)
    assert seen == [("running", 1, 0), ("running", 2, 1)]


def test_a_safe_step_runs_again_and_pays_again(store: Store, call: Call) -> None:
    ran: list[int] = []
    task, context = dying(2), Context(app=ran)
    call(store.durable.save, TASK_ID, demo_checkpoint(modelBudget={**BUDGET, "maxCalls": 6}))
    for attempt in (1, 2):
        with pytest.raises(Died):
            call(task.run, TASK_ID, store, context)
        left = call(store.durable.load, TASK_ID)
        assert left is not None
        assert left.model_budget is not None
        assert (left.status, left.attempt_count, left.model_budget.reserved_calls) == ("running", attempt, 2 * attempt)
    end = call(task.run, TASK_ID, store, context)
    assert (end.status, end.attempt_count, ran) == ("completed", 3, [0, 0, 0])


def test_attempts_are_for_the_whole_task_and_never_come_back(store: Store, call: Call) -> None:
    task, context = dying(2, steps=2), Context(app=[])
    call(store.durable.save, TASK_ID, demo_checkpoint())
    for _ in range(2):
        with pytest.raises(Died):
            call(task.run, TASK_ID, store, context)
    with pytest.raises(Refused, match="no attempt is left"):
        call(task.run, TASK_ID, store, context)
    left = call(store.durable.load, TASK_ID)
    assert left is not None
    assert (left.status, left.next_step_index, left.attempt_count) == ("ready", 1, 3)
    call(store.durable.save, TASK_ID, replace(left, max_attempts=4))  # the app allows one more
    assert call(task.run, TASK_ID, store, context).status == "completed"


def test_an_interrupted_attempt_never_gets_its_allowance_back(store: Store, call: Call) -> None:
    task, context = dying(2), Context(app=[])
    call(store.durable.save, TASK_ID, demo_checkpoint(modelBudget=BUDGET))
    for _ in range(2):
        with pytest.raises(Died):
            call(task.run, TASK_ID, store, context)
    left = call(store.durable.load, TASK_ID)
    with pytest.raises(Refused, match="no room for another attempt"):
        call(task.run, TASK_ID, store, context)
    assert call(store.durable.load, TASK_ID) == left


def test_an_attempt_makes_no_more_model_calls_than_it_reserved(store: Store, call: Call) -> None:
    def chatty(state: Any, context: Context) -> Any:
        for _ in range(3):
            context.model_call()

    call(store.durable.save, TASK_ID, demo_checkpoint(modelBudget=BUDGET))
    task = SeedTask("count", "1", is_state, [Step("a", "safe", chatty)])
    with pytest.raises(Refused, match="all its model calls"):
        call(task.run, TASK_ID, store)


def test_a_task_without_a_budget_stays_without_one(store: Store, call: Call) -> None:
    call(store.durable.save, TASK_ID, demo_checkpoint())
    call(counting(steps=2).run, TASK_ID, store)
    end = call(store.durable.load, TASK_ID)
    assert end is not None
    assert "modelBudget" not in end.to_json()


def test_the_deadline_cancels_a_task_and_keeps_where_it_stood(store: Store, call: Call) -> None:
    ran: list[int] = []
    call(store.durable.save, TASK_ID, demo_checkpoint(status="running", attemptCount=1, maxAttempts=1))
    task = replace(dying(0), clock=lambda: 253_402_300_799_999)
    for _ in range(2):
        end = call(task.run, TASK_ID, store, Context(app=ran))
        assert (end.status, end.next_step_index, end.attempt_count, ran) == ("cancelled", 0, 1, [])
        assert call(store.durable.load, TASK_ID) == end


def test_a_run_that_is_aborted_stops_between_two_steps(store: Store, call: Call) -> None:
    ran: list[int] = []
    call(store.durable.save, TASK_ID, demo_checkpoint())
    stopped = call(dying(0, steps=2).run, TASK_ID, store, Context(app=ran, aborted=lambda: bool(ran)))
    assert (stopped.status, stopped.next_step_index, ran) == ("ready", 1, [0])
    assert call(store.durable.load, TASK_ID) == stopped
    assert call(dying(0, steps=2).run, TASK_ID, store, Context(app=ran)).status == "completed"
    assert ran == [0, 1]


@pytest.mark.parametrize(
    "changes",
    [{"definitionId": "other"}, {"revision": "2"}, {"state": {"count": "0"}}, {"state": None}, {"nextStepIndex": 2}],
    ids=str,
)
def test_a_mismatch_leaves_the_checkpoint_as_it_is(store: Store, call: Call, changes: dict[str, Any]) -> None:
    call(store.durable.save, TASK_ID, demo_checkpoint(**changes))
    before = call(store.durable.load, TASK_ID)
    with pytest.raises(Refused):
        call(counting().run, TASK_ID, store)
    assert call(store.durable.load, TASK_ID) == before


def test_a_step_that_returns_no_state_has_spent_its_attempt(store: Store, call: Call) -> None:
    task = SeedTask("count", "1", is_state, [Step("a", "safe", lambda state, context: None)])
    call(store.durable.save, TASK_ID, demo_checkpoint())
    with pytest.raises(Refused, match="no state"):
        call(task.run, TASK_ID, store)
    left = call(store.durable.load, TASK_ID)
    assert left is not None
    assert (left.status, left.attempt_count, left.state) == ("running", 1, {"count": 0})


def test_the_state_that_a_step_changes_in_place_is_a_copy(store: Store, call: Call) -> None:
    def change(state: Any, context: Context) -> Any:
        state["count"] = 99
        raise Died

    call(store.durable.save, TASK_ID, demo_checkpoint())
    task = SeedTask("count", "1", is_state, [Step("a", "safe", change)])
    with pytest.raises(Died):
        call(task.run, TASK_ID, store)
    left = call(store.durable.load, TASK_ID)
    assert left is not None
    assert left.state == {"count": 0}


def test_documents_go_in_and_out_exactly(store: Store, call: Call) -> None:
    document = demo_checkpoint(modelBudget=BUDGET, status="running", attemptCount=2).to_json()
    with pytest.raises(CheckpointInvalid, match=r"expected a Checkpoint, got dict: see Checkpoint\.from_json"):
        call(store.durable.save, TASK_ID, document)  # type: ignore[arg-type]
    assert call(store.durable.load, TASK_ID) is None
    call(store.durable.save, TASK_ID, demo_checkpoint(modelBudget=BUDGET, status="running", attemptCount=2))
    loaded = call(store.durable.load, TASK_ID)
    assert loaded is not None
    assert loaded.to_json() == document | {"deadlineAtMs": loaded.deadline_at_ms}
    assert list(loaded.to_json()) == list(document)


def test_a_second_run_waits_or_fails_while_the_first_holds_the_task(store: Store, call: Call) -> None:
    def while_held(held: object) -> None:
        claimed = store.durable.claim(TASK_ID)
        assert claimed is None

    call(store.durable.save, TASK_ID, demo_checkpoint())
    call.block(store.durable.exclusive(TASK_ID), while_held)
    claim = call(store.durable.claim, TASK_ID)
    assert claim is not None
    with pytest.raises(TaskBusy):
        call(counting().run, TASK_ID, store, wait=0)
    assert call(store.durable.load, TASK_ID) == claim.checkpoint
    call(store.durable.release, TASK_ID, claim.token)
    assert call(counting().run, TASK_ID, store, wait=0).status == "completed"


def test_who_lost_the_task_inside_a_step_saves_nothing(store: Store) -> None:
    def lose(state: Any, context: Context) -> Any:
        age(store, 61)
        assert store.durable.claim(TASK_ID) is not None
        return count_up(state, context)

    store.durable.save(TASK_ID, demo_checkpoint())
    task = SeedTask("count", "1", is_state, [Step("a", "safe", lose)], clock=lambda: 0)
    with pytest.raises(LeaseLost):
        task.run(TASK_ID, store)
    left = store.durable.load(TASK_ID)
    assert left is not None
    assert (left.status, left.state, left.attempt_count) == ("running", {"count": 0}, 1)


def test_coroutines_that_run_one_task_take_turns(store: Store) -> None:
    async def step(state: Any, context: Context) -> Any:
        context.app.append("in")
        await asyncio.sleep(0)
        context.app.append("out")
        return count_up(state, context)

    async def main() -> None:
        await store.durable.asave(TASK_ID, demo_checkpoint())
        log: list[str] = []
        task = SeedTask("count", "1", is_state, [Step("a", "safe", step), Step("b", "safe", step)])
        ends = await asyncio.gather(*(task.arun(TASK_ID, store, Context(app=log)) for _ in range(3)))
        assert [end.state for end in ends] == [{"count": 2}] * 3
        assert log == ["in", "out"] * 2

    async_to_sync(main)()
