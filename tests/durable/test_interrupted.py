"""What becomes of a step whose worker died, or that raised."""

from typing import Any

import pytest

from django_statestore.durable import Backoff, DurableTask, ModelBudget, NotDone, StepContext
from django_statestore.exceptions import ModelBudgetExceeded
from tests.durable.conftest import Bench, State


class Provider:
    """Stand for the outside system that a reconcile step acts on."""

    def __init__(self) -> None:
        self.paid = 0
        self.asked = 0
        self.answers = True


def paying(bench: Bench, provider: Provider, **options: Any) -> DurableTask[State]:
    task = bench.define(**options)

    @task.step(replay="reconcile")
    def pay(state: State, ctx: StepContext) -> State:
        provider.paid += 1
        return state.then(f"paid {ctx.attempt}")

    @pay.reconcile
    def pay_found(state: State, ctx: StepContext) -> object:
        provider.asked += 1
        if not provider.answers:
            raise ConnectionError("the provider does not answer")
        return state.then("found") if provider.paid else NotDone

    return task


def test_an_interrupted_safe_step_is_entered_again_and_spends_again(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def work(state: State, ctx: StepContext) -> State:
        return state.then(f"attempt {ctx.attempt}")

    bench.start(task)
    bench.die(task)
    bench.die(task)
    done = bench.run(task)
    assert (done.state.ran, done.checkpoint.attempt_count) == (("attempt 3",), 3)


def test_an_interrupted_reconcile_step_is_never_run_again_blindly(bench: Bench) -> None:
    provider = Provider()
    task = paying(bench, provider)
    bench.start(task)
    bench.die(task)
    provider.paid = 1
    done = bench.run(task)
    assert (done.status, done.state.ran, provider.paid) == ("completed", ("found",), 1)
    assert done.checkpoint.attempt_count == 1, "reconciling spends no attempt"
    assert bench.outcomes()[-1] == ("pay", "reconciled")


def test_a_step_found_not_done_is_entered_again(bench: Bench) -> None:
    provider = Provider()
    task = paying(bench, provider)
    bench.start(task)
    bench.die(task)
    done = bench.run(task)
    assert (done.state.ran, provider.paid, provider.asked) == (("paid 2",), 1, 1)
    assert done.checkpoint.attempt_count == 2


def test_a_reconcile_that_raises_is_asked_again_and_spends_nothing(bench: Bench) -> None:
    provider = Provider()
    provider.answers = False
    task = paying(bench, provider)
    bench.start(task)
    bench.die(task)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            bench.run(task)
        bench.age(300)
    waiting = bench.get(task)
    assert (waiting.status, waiting.checkpoint.attempt_count) == ("running", 1)
    provider.answers, provider.paid = True, 1
    assert bench.run(task).state.ran == ("found",)


def test_a_reconcile_is_allowed_when_attempts_are_used_up(bench: Bench) -> None:
    provider = Provider()
    task = paying(bench, provider, max_attempts=1)
    bench.start(task)
    bench.die(task)
    provider.paid = 1
    assert bench.run(task).status == "completed"


def test_a_step_found_not_done_without_attempts_left_is_parked_as_ready(bench: Bench) -> None:
    provider = Provider()
    task = paying(bench, provider, max_attempts=1)
    bench.start(task)
    bench.die(task)
    parked = bench.run(task)
    assert (parked.status, parked.reason, parked.parked) == ("ready", "attempts_exhausted", True)
    assert provider.paid == 0


def test_a_reconcile_that_never_answers_parks_as_reconcile_unknown(bench: Bench) -> None:
    provider = Provider()
    provider.answers = False
    task = paying(bench, provider)
    bench.start(task)
    bench.die(task)
    for _ in range(4):
        with pytest.raises(ConnectionError):
            bench.run(task)
        bench.age(300)
    parked = bench.run(task)
    assert (parked.status, parked.reason, provider.paid) == ("running", "reconcile_unknown", 0)
    assert parked.parked


def test_a_task_that_kills_its_workers_parks_as_crash_loop(bench: Bench) -> None:
    task = bench.define(max_attempts=100)

    @task.step(replay="safe")
    def deadly(state: State, ctx: StepContext) -> State:
        return state

    bench.start(task)
    for _ in range(5):
        bench.die(task)
    parked = bench.run(task)
    assert (parked.reason, parked.status, parked.checkpoint.attempt_count) == ("crash_loop", "running", 5)


def test_a_commit_in_between_starts_the_count_of_dead_workers_anew(bench: Bench) -> None:
    task = bench.define(max_attempts=100)

    @task.step(replay="safe")
    def first(state: State, ctx: StepContext) -> State:
        return state

    @task.step(replay="safe")
    def second(state: State, ctx: StepContext) -> State:
        return state

    bench.start(task)
    for _ in range(4):
        bench.die(task)
    bench.one_step(task)
    for _ in range(4):
        bench.die(task)
    assert bench.run(task).status == "completed"


def test_a_step_that_raises_is_recorded_and_waits_for_its_backoff(bench: Bench) -> None:
    task = bench.define(backoff=Backoff(first=10, longest=30))

    @task.step(replay="safe")
    def fragile(state: State, ctx: StepContext) -> State:
        if ctx.attempt < 4:
            raise ValueError(f"attempt {ctx.attempt} \0 \ud800")
        return state.then("at last")

    bench.start(task)
    for attempt, wait in ((1, 10), (2, 20), (3, 30)):
        with pytest.raises(ValueError, match=f"attempt {attempt}"):
            bench.run(task)
        kept = bench.run(task)
        assert (kept.status, kept.attempt) == ("running", attempt), "not due: nothing runs"
        assert f"ValueError: attempt {attempt} \\x00 \\ud800" in kept.last_error
        bench.age(wait - 0.5)
        assert bench.run(task).attempt == attempt
        bench.age(0.6)
    done = bench.run(task)
    assert (done.state.ran, done.last_error) == (("at last",), "")


def test_failures_park_as_attempts_exhausted_and_lose_nothing(bench: Bench) -> None:
    task = bench.define(max_attempts=2)

    @task.step(replay="safe")
    def hopeless(state: State, ctx: StepContext) -> State:
        raise ValueError("no")

    bench.start(task, state=State(("kept",)))
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            bench.run(task)
        bench.age(300)
    parked = bench.run(task)
    assert (parked.reason, parked.state, parked.step) == ("attempts_exhausted", State(("kept",)), "hopeless")
    assert "ValueError: no" in parked.last_error


def test_an_error_whose_text_cannot_be_made_is_recorded_all_the_same(bench: Bench) -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    task = bench.define()

    @task.step(replay="safe")
    def rude(state: State, ctx: StepContext) -> State:
        raise Rude

    bench.start(task)
    with pytest.raises(Rude):
        bench.run(task)
    assert bench.get(task).last_error.startswith("Rude: ")


def test_model_calls_are_reserved_at_entry_and_never_refunded_after_an_interruption(bench: Bench) -> None:
    task = bench.define(model_budget=ModelBudget(10, per_attempt=4))

    @task.step(replay="safe", model_calls=4)
    def think(state: State, ctx: StepContext) -> State:
        ctx.spend_model_call()
        return state

    @task.step(replay="safe", model_calls=4)
    def think_too_much(state: State, ctx: StepContext) -> State:
        for _ in range(5):
            ctx.spend_model_call()
        return state

    bench.start(task)
    bench.die(task, calls=4)
    bench.one_step(task)
    assert bench.record().reserved_calls == 4 + 1, "the clean attempt settled to the call it made"
    with pytest.raises(ModelBudgetExceeded):
        bench.run(task)
    bench.age(300)
    parked = bench.run(task)
    assert (parked.reason, bench.record().reserved_calls) == ("budget_exhausted", 9)
    assert parked.checkpoint.model_budget is not None
