"""``ctx.append``: a part of the state that only grows, and that a save does not write again."""

from typing import Any

import pytest

from django_statestore.durable import DurableTask, Fail, Finish, Repeat, Sleep, StepContext
from django_statestore.exceptions import ValueNotSerializable
from tests.durable.conftest import Bench, State


def talking(bench: Bench, body: Any) -> DurableTask[State]:
    task = bench.define()

    @task.step(replay="safe")
    def talk(state: State, ctx: StepContext) -> Any:
        return body(state, ctx)

    bench.start(task)
    return task


def items(bench: Bench, name: str = "said") -> list[str]:
    return bench.engine.task_items(bench.record().id, name).run()


def test_items_are_saved_with_the_step_in_their_order(bench: Bench) -> None:
    def body(state: State, ctx: StepContext) -> Any:
        ctx.append("said", f"{ctx.turn} a")
        ctx.append("said", {"n": ctx.turn})
        ctx.append("other", ctx.turn)
        state = state.then(str(ctx.items("said")))
        return state if ctx.turn == 2 else Repeat(state)

    done = bench.run(talking(bench, body))
    assert done.state.ran == ("['1 a', {'n': 1}]", "['1 a', {'n': 1}, '2 a', {'n': 2}]")
    assert len(items(bench)) == 4
    assert items(bench, "other") == ["1", "2"]


def test_an_attempt_that_failed_leaves_no_items(bench: Bench) -> None:
    def body(state: State, ctx: StepContext) -> State:
        ctx.append("said", ctx.attempt)
        if ctx.attempt == 1:
            raise ValueError("no")
        return state

    task = talking(bench, body)
    with pytest.raises(ValueError, match="no"):
        bench.run(task)
    assert items(bench) == []
    bench.age(10)
    bench.run(task)
    assert items(bench) == ["2"]


@pytest.mark.parametrize("outcome", [Finish, lambda state: Sleep(state, 5)])
def test_every_way_to_save_saves_the_items(bench: Bench, outcome: Any) -> None:
    def body(state: State, ctx: StepContext) -> Any:
        ctx.append("said", 1)
        return outcome(state)

    bench.run(talking(bench, body))
    assert items(bench) == ["1"]


def test_a_task_that_fails_keeps_the_items_it_had(bench: Bench) -> None:
    def body(state: State, ctx: StepContext) -> Any:
        ctx.append("said", ctx.turn)
        return Fail("enough") if ctx.turn == 2 else Repeat(state)

    bench.run(talking(bench, body))
    assert items(bench) == ["1"]


def test_what_would_not_come_back_is_refused_at_the_call(bench: Bench) -> None:
    def body(state: State, ctx: StepContext) -> Any:
        with pytest.raises(ValueNotSerializable):
            ctx.append("said", object())
        return state

    assert bench.run(talking(bench, body)).status == "completed"
    assert items(bench) == []


def test_a_worker_that_stops_saves_the_items(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def first(state: State, ctx: StepContext) -> State:
        ctx.append("said", 1)
        return state

    @task.step(replay="safe")
    def second(state: State, ctx: StepContext) -> State:
        return state.then(str(ctx.items("said")))

    bench.start(task)
    bench.one_step(task)
    assert items(bench) == ["1"]
    assert bench.run(task).state.ran == ("[1]",)


def test_async_steps_await_their_items(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    async def talk(state: State, ctx: StepContext) -> Any:
        ctx.append("said", ctx.turn)
        state = state.then(str(await ctx.aitems("said")))
        return state if ctx.turn == 2 else Repeat(state)

    bench.start(task)
    assert bench.run(task).state.ran == ("[1]", "[1, 2]")
