"""``ctx.check``: a step is left from within where going on is no use."""

import asyncio
import time
from typing import Any

import pytest

from django_statestore.durable import Cancelled, DeadlinePassed, DurableTask, LeaseOver, StepContext
from django_statestore.exceptions import LeaseLost, StepTimeout
from tests.durable.conftest import Bench, State


def checking(bench: Bench, before: Any, **options: Any) -> tuple[DurableTask[State], list[str]]:
    timeout = options.pop("timeout", None)
    task, left = bench.define(**options), list[str]()

    @task.step(replay="safe", timeout=timeout)
    def work(state: State, ctx: StepContext) -> State:
        before(ctx)
        try:
            ctx.check()
        except Exception:
            left.append("an exception")
            raise
        except BaseException as error:
            left.append(type(error).__name__)
            raise
        return state.then("went on")

    bench.start(task)
    return task, left


def renewed(ctx: StepContext) -> None:
    """Let the lease be renewed, as its thread does from time to time."""
    ctx._lease.refused = ctx._lease.renew_all([ctx._lease]) == [False]


def test_a_step_with_nothing_against_it_goes_on(bench: Bench) -> None:
    task, left = checking(bench, lambda ctx: None)
    assert (bench.run(task).state.ran, left) == (("went on",), [])


def test_a_cancel_reaches_a_running_step_with_the_next_renewal(bench: Bench) -> None:
    def before(ctx: StepContext) -> None:
        task.cancel("t", "enough", namespace=bench.names, sender="ann")
        assert not ctx.cancelled
        renewed(ctx)
        assert ctx.cancelled

    task, left = checking(bench, before)
    ended = bench.run(task)
    assert left == [Cancelled.__name__]
    assert (ended.status, ended.reason) == ("cancelled", "enough (step 'work' was open)")
    assert (ended.state.ran, ended.last_error) == ((), "")


def test_a_deadline_that_passes_is_left_by_and_cancels(bench: Bench) -> None:
    def before(ctx: StepContext) -> None:
        bench.age(60)
        ctx._lease.deadline -= 60  # the time that passes for the store passes for its worker too

    task, left = checking(bench, before, deadline=60)
    ended = bench.run(task)
    assert left == [DeadlinePassed.__name__]
    assert (ended.status, ended.reason) == ("cancelled", "deadline_passed (step 'work' was open)")


def test_a_lost_lease_is_left_by_and_writes_nothing(bench: Bench) -> None:
    def before(ctx: StepContext) -> None:
        bench.age(61)
        take_over(bench)
        renewed(ctx)

    task, left = checking(bench, before)
    with pytest.raises(LeaseLost):
        bench.run(task)
    assert left == [LeaseOver.__name__]
    assert bench.record().worker == "another worker"


def take_over(bench: Bench) -> None:
    record = bench.record()
    at = record.position
    assert bench.engine.task_claim(at, "another worker", 60_000, enter=True, calls=0).run() is not None


def test_a_step_that_runs_longer_than_its_timeout_fails_like_others(bench: Bench) -> None:
    task, left = checking(bench, lambda ctx: time.sleep(0.06), timeout=0.05)
    with pytest.raises(StepTimeout):
        bench.run(task)
    assert left == ["an exception"]
    assert bench.get(task).status == "running"


def test_an_async_step_is_ended_by_its_timeout(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe", timeout=0.05)
    async def work(state: State, ctx: StepContext) -> State:
        await asyncio.sleep(20)
        return state

    bench.start(task)
    with pytest.raises(StepTimeout, match="'work'"):
        bench.run(task)
    assert bench.get(task).last_error.startswith("StepTimeout: 'work' ran longer")


def test_what_is_left_is_the_shorter_of_deadline_and_timeout(bench: Bench) -> None:
    seen: list[float] = []
    task, _ = checking(bench, lambda ctx: seen.append(ctx.remaining), timeout=7)
    bench.run(task)
    assert 0 < seen[0] <= 7
