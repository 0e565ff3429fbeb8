"""``ctx.call``: a finished call is not made twice, whoever dies."""

from typing import Any

import pytest

from django_statestore.durable import DurableTask, NotDone, Repeat, StepContext
from django_statestore.durable.points import Crashed
from django_statestore.exceptions import InvalidArgument, JournalMismatch, ValueNotSerializable
from django_statestore.testing import crash_at
from tests.durable.conftest import Bench, State


def counting(made: list[int]) -> int:
    """Count one call, and return how many there were."""
    made.append(1)
    return len(made)


def calling(bench: Bench, body: Any, **options: Any) -> DurableTask[State]:
    task = bench.define(**options)

    @task.step(replay="safe")
    def work(state: State, ctx: StepContext) -> Any:
        return body(state, ctx)

    bench.start(task)
    return task


def crash(bench: Bench, task: DurableTask[State], point: Any, step: str = "work") -> None:
    """Let a worker die at a point, and its lease lapse."""
    with crash_at(step, point), pytest.raises(Crashed):
        bench.run(task)
    bench.age(61)


def test_a_finished_call_is_not_made_again_by_the_next_worker(bench: Bench) -> None:
    made: list[str] = []

    def search(word: str) -> dict[str, str]:
        made.append(word)
        return {"found": word}

    def body(state: State, ctx: StepContext) -> State:
        first, second = ctx.call("search", search, "a"), ctx.call("search", search, word="b")
        return state.then(f"{first['found']} {second['found']} {ctx.attempt}")

    task = calling(bench, body)
    crash(bench, task, "returned")
    assert bench.run(task).state.ran == ("a b 2",)
    assert made == ["a", "b"]


def test_a_call_whose_worker_died_before_it_was_kept_is_made_again(bench: Bench) -> None:
    made: list[int] = []

    def body(state: State, ctx: StepContext) -> State:
        return state.then(str(ctx.call("count", counting, made)))

    task = calling(bench, body)
    crash(bench, task, "called")
    assert bench.run(task).state.ran == ("2",)


def test_a_step_that_raises_keeps_the_calls_that_it_finished(bench: Bench) -> None:
    made: list[int] = []

    def body(state: State, ctx: StepContext) -> State:
        ctx.call("count", lambda: made.append(1))
        if ctx.attempt == 1:
            raise ValueError("after the call")
        return state

    task = calling(bench, body)
    with pytest.raises(ValueError, match="after the call"):
        bench.run(task)
    bench.age(10)
    assert (bench.run(task).status, made) == ("completed", [1])


def test_a_save_ends_what_is_kept(bench: Bench) -> None:
    made: list[int] = []

    def body(state: State, ctx: StepContext) -> Any:
        state = state.then(str(ctx.call("count", counting, made)))
        return state if ctx.turn == 3 else Repeat(state)

    assert bench.run(calling(bench, body)).state.ran == ("1", "2", "3")


def test_other_arguments_at_the_same_place_are_refused(bench: Bench) -> None:
    def body(state: State, ctx: StepContext) -> State:
        ctx.call("echo", lambda word: word, f"attempt {ctx.attempt}")
        return state

    task = calling(bench, body)
    crash(bench, task, "returned")
    with pytest.raises(JournalMismatch, match="'echo'"):
        bench.run(task)


def test_a_call_that_raises_keeps_nothing(bench: Bench) -> None:
    made: list[int] = []

    def flaky() -> str:
        made.append(1)
        if len(made) == 1:
            raise ConnectionError("try again")
        return "ok"

    task = calling(bench, lambda state, ctx: state.then(ctx.call("flaky", flaky)))
    with pytest.raises(ConnectionError):
        bench.run(task)
    bench.age(10)
    assert bench.run(task).state.ran == ("ok",)


@pytest.mark.parametrize("value", [("a", 1), {1, 2}, None, b"\0", {"x": [1.5]}])
def test_results_come_back_equal_and_of_the_same_type(bench: Bench, value: Any) -> None:
    seen: list[Any] = []

    def body(state: State, ctx: StepContext) -> State:
        seen.append(ctx.call("value", lambda: value))
        return state

    task = calling(bench, body)
    crash(bench, task, "returned")
    bench.run(task)
    assert seen == [value, value]
    assert [type(each) for each in seen] == [type(value)] * 2


def test_a_large_result_is_spooled(bench: Bench) -> None:
    large, made = "x" * 300_000, []

    def fetch() -> str:
        made.append(1)
        return large

    def body(state: State, ctx: StepContext) -> State:
        return state.then(str(ctx.call("fetch", fetch) == large))

    task = calling(bench, body)
    crash(bench, task, "returned")
    assert bench.run(task).state.ran == ("True",)
    assert len(made) == 1
    [line] = bench.engine.task_calls(bench.record().id, 0).run()
    assert len(line.value) < 1000


def test_what_cannot_be_kept_or_compared_is_refused_by_name(bench: Bench) -> None:
    task = calling(bench, lambda state, ctx: ctx.call("bad", object))
    with pytest.raises(ValueNotSerializable):
        bench.run(task)
    bench.age(10)
    other = bench.define()

    @other.step(replay="safe")
    def work(state: State, ctx: StepContext) -> Any:
        return ctx.call("bad", print, object())

    bench.start(other, "other")
    with pytest.raises(InvalidArgument, match="'bad'"):
        bench.run(other, "other")


def test_a_reconcile_function_asks_anew_each_time(bench: Bench) -> None:
    task, asked = bench.define(), list[int]()

    @task.step(replay="reconcile")
    def pay(state: State, ctx: StepContext) -> State:
        ctx.call("pay", lambda: None)
        return state.then("paid")

    @pay.reconcile
    def paid(state: State, ctx: StepContext) -> Any:
        answer = ctx.call("pay", counting, asked)
        return state.then("found") if answer == 2 else NotDone

    bench.start(task)
    for _ in range(2):
        crash(bench, task, "returned", "pay")
    assert bench.run(task).state.ran == ("found",)


def test_async_steps_await_their_calls(bench: Bench) -> None:
    task, made = bench.define(), []

    async def fetch(word: str) -> str:
        made.append(word)
        return word.upper()

    @task.step(replay="safe")
    async def work(state: State, ctx: StepContext) -> State:
        first = await ctx.acall("fetch", fetch, "a")
        second = await ctx.acall("plain", str.upper, "b")
        return state.then(first + second)

    bench.start(task)
    crash(bench, task, "returned")
    assert bench.run(task).state.ran == ("AB",)
    assert made == ["a"]
