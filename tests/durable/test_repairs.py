"""What an operator does to a task that nobody holds: each repair is refused where it makes no sense, and recorded."""

from typing import Any

import pytest

from django_statestore.contracts.position import Position
from django_statestore.contracts.taskrecord import TaskRecord
from django_statestore.durable import (
    Backoff,
    DurableTask,
    ModelBudget,
    NotDone,
    Repeat,
    StepContext,
    TaskHandle,
    WaitFor,
)
from django_statestore.durable.registry import unregister
from django_statestore.exceptions import (
    RepairRefused,
    StateInvalid,
    TaskBusy,
    TaskFinished,
    TaskNotFound,
    UnknownDefinition,
    ValueNotSerializable,
)
from django_statestore.services import repair
from tests.durable.conftest import Bench, State


def paying(bench: Bench, **options: Any) -> DurableTask[State]:
    """Define a task whose first step has an effect that nobody can tell of once it was interrupted."""
    task = bench.define(**({"backoff": Backoff(first=60)} | options))

    @task.step(replay="reconcile")
    def pay(state: State, ctx: StepContext) -> State:
        return state.then("paid")

    @pay.reconcile
    def ask(state: State, ctx: StepContext) -> State:
        raise ValueError("cannot tell")

    @task.step(replay="safe")
    def tell(state: State, ctx: StepContext) -> State:
        return state.then("told")

    return task


def interrupted(bench: Bench, **options: Any) -> DurableTask[State]:
    """Return a task whose first step was interrupted and parked, after some workers could not reconcile it."""
    task = paying(bench, **options)
    bench.start(task)
    bench.die(task)
    for _ in range(4):
        with pytest.raises(ValueError, match="cannot tell"):
            bench.run(task)
        bench.age(3600)
    assert bench.run(task).reason == "reconcile_unknown"
    return task


def repairs(bench: Bench, task: DurableTask[State]) -> list[tuple[str, str]]:
    lines = bench.call(bench.get(task).journal)
    return [(line.name, line.sender) for line in lines if line.kind == "repair"]


def all_but_grant(handle: TaskHandle[State]) -> list[tuple[Any, list[State]]]:
    """Return the repairs that a living worker keeps out, with their arguments."""
    return [
        (handle.retry_now, []),
        (handle.mark_done, [State()]),
        (handle.mark_not_done, []),
        (handle.migrate, []),
    ]


def at(record: TaskRecord) -> Position:
    return record.position


# -- an interrupted step ----------------------------------------------------------------------------------------------


def test_a_step_marked_done_is_not_entered_again_and_the_next_one_has_the_given_state(bench: Bench) -> None:
    task = interrupted(bench, deadline=10**6)
    marked = bench.call(bench.get(task).mark_done, State(("paid by hand",)), sender="ann")
    assert (marked.status, marked.reason, marked.step, marked.record.claims) == ("ready", "", "tell", 0)
    assert marked.record.due
    done = bench.run(task)
    assert (done.status, done.state.ran) == ("completed", ("paid by hand", "told"))
    assert ("pay", "marked_done") in bench.outcomes()
    assert repairs(bench, task) == [("mark_done", "ann")]


def test_a_step_marked_not_done_is_entered_again_and_not_reconciled(bench: Bench) -> None:
    task = interrupted(bench, deadline=10**6)
    marked = bench.call(bench.get(task).mark_not_done, sender="ann")
    assert (marked.status, marked.reason, marked.step) == ("ready", "", "pay")
    assert bench.run(task).state.ran == ("paid", "told")
    assert repairs(bench, task) == [("mark_not_done", "ann")]


def test_the_last_step_marked_done_completes_the_task(bench: Bench) -> None:
    task = paying(bench)
    bench.start(task)
    bench.one_step(task)
    bench.die(task)
    marked = bench.call(bench.get(task).mark_done, State(n=3))
    assert (marked.status, marked.step, marked.state.n) == ("completed", None, 3)
    assert marked.finished_at is not None
    assert marked.record.wake_at is None
    assert bench.run(task).status == "completed"


def test_what_was_not_interrupted_cannot_be_marked(bench: Bench) -> None:
    task = paying(bench)
    handle = bench.start(task)
    for operation, arguments in all_but_grant(handle)[1:3]:
        with pytest.raises(RepairRefused, match="no step of the task 't' was interrupted"):
            bench.call(operation, *arguments)
    assert repairs(bench, task) == []


def test_a_state_that_the_definition_does_not_accept_is_not_marked_done(bench: Bench) -> None:
    task = paying(bench)
    bench.start(task)
    bench.die(task)
    before = bench.rows.everything("t")
    with pytest.raises(StateInvalid):
        bench.call(bench.get(task).mark_done, {"n": "three"})
    assert bench.rows.everything("t") == before
    assert bench.call(bench.get(task).mark_done, {"n": 3, "ran": ["x"]}).state == State(("x",), 3)


# -- retry ------------------------------------------------------------------------------------------------------------


def test_retry_now_ends_a_back_off(bench: Bench) -> None:
    task = bench.define(backoff=Backoff(first=300))

    @task.step(replay="safe")
    def fragile(state: State, ctx: StepContext) -> State:
        if ctx.attempt == 1:
            raise ValueError("first")
        return state.then("done")

    handle = bench.start(task)
    with pytest.raises(ValueError, match="first"):
        bench.run(task)
    assert bench.run(task).status == "running"
    assert bench.call(handle.retry_now, sender="ann").record.due
    assert bench.run(task).status == "completed"
    assert repairs(bench, task) == [("retry_now", "ann")]


def test_retry_now_takes_a_parked_task_up_again(bench: Bench) -> None:
    task = interrupted(bench, deadline=10**6)
    retried = bench.call(bench.get(task).retry_now)
    assert (retried.status, retried.reason, retried.record.claims, retried.record.due) == ("running", "", 0, True)
    with pytest.raises(ValueError, match="cannot tell"):
        bench.run(task)


def test_retry_now_of_what_is_used_up_names_the_grant_that_it_wants(bench: Bench) -> None:
    task = bench.define(max_attempts=1)

    @task.step(replay="safe")
    def work(state: State, ctx: StepContext) -> State:
        return state

    bench.start(task)
    bench.die(task)
    assert bench.run(task).reason == "attempts_exhausted"
    with pytest.raises(RepairRefused, match="has used up its attempts: grant more"):
        bench.call(bench.get(task).retry_now)
    bench.call(bench.get(task).grant, attempts=1)
    assert bench.run(task).status == "completed"


def test_retry_now_cuts_no_sleep_and_no_wait_short(bench: Bench) -> None:
    task = bench.define(max_attempts=9)

    @task.step(replay="safe")
    def rest(state: State, ctx: StepContext) -> object:
        if ctx.turn == 1:
            return Repeat(state, delay=600)
        return WaitFor(state, "answer")

    @task.step(replay="safe")
    def end(state: State, ctx: StepContext) -> State:
        return state.then(str(ctx.received))

    handle = bench.start(task)
    bench.run(task)
    with pytest.raises(RepairRefused, match="sleeps and is not parked"):
        bench.call(handle.retry_now)
    bench.age(601)
    bench.run(task)
    with pytest.raises(RepairRefused, match="waits for a signal and is not parked"):
        bench.call(handle.retry_now)
    bench.rows.change("t", "reason", "crash_loop")
    retried = bench.call(handle.retry_now)
    assert (retried.reason, retried.record.due) == ("", False)
    assert retried.waiting is not None


# -- who may not be disturbed -----------------------------------------------------------------------------------------


def test_a_living_worker_is_not_disturbed(bench: Bench) -> None:
    task = paying(bench)
    handle = bench.start(task)
    grant = bench.engine.task_claim(at(bench.record()), "alive", 60_000, enter=True, calls=0).run()
    assert grant is not None
    for operation, arguments in all_but_grant(handle):
        with pytest.raises(TaskBusy, match="a worker is at the task 't'"):
            bench.call(operation, *arguments)
    assert bench.record().fence == grant.fence
    bench.age(61)
    assert bench.call(handle.mark_not_done).record.fence > grant.fence
    assert bench.record().worker == ""


def test_a_finished_task_is_not_repaired(bench: Bench) -> None:
    task = paying(bench)
    handle = bench.start(task)
    bench.run(task)
    for operation, arguments in all_but_grant(handle):
        with pytest.raises(TaskFinished, match="'t' has ended"):
            bench.call(operation, *arguments)
    assert repairs(bench, task) == []


def test_the_worker_that_lapsed_can_write_nothing_after_a_repair(bench: Bench) -> None:
    task = paying(bench)
    handle = bench.start(task)
    lapsed = bench.die(task)
    bench.call(handle.mark_not_done)
    assert bench.engine.task_park(lapsed, "crash_loop").run() is False
    assert bench.run(task).status == "completed"


def test_a_grant_of_model_calls_takes_up_what_was_parked_for_them(bench: Bench) -> None:
    task = bench.define(model_budget=ModelBudget(2, per_attempt=2), max_attempts=20)

    @task.step(replay="safe", model_calls=2)
    def think(state: State, ctx: StepContext) -> object:
        ctx.spend_model_call()
        ctx.spend_model_call()
        return Repeat(state) if ctx.turn == 1 else state.then("thought")

    handle = bench.start(task)
    assert bench.run(task).reason == "budget_exhausted"
    granted = bench.call(handle.grant, model_calls=2, sender="ann")
    assert (granted.parked, granted.record.max_calls, granted.record.due) == (False, 4, True)
    assert bench.run(task).status == "completed"


def test_reconcile_answers_count_again_after_a_repair(bench: Bench) -> None:
    answers: list[Any] = []
    task = bench.define(backoff=Backoff(first=1), deadline=10**6)

    @task.step(replay="reconcile")
    def pay(state: State, ctx: StepContext) -> State:
        return state.then("paid")

    @pay.reconcile
    def ask(state: State, ctx: StepContext) -> object:
        return answers.pop() if answers else NotDone

    bench.start(task)
    bench.die(task)
    bench.call(bench.get(task).retry_now)
    answers.append(State(("found",)))
    assert bench.run(task).state.ran == ("found",)


# -- by store and id --------------------------------------------------------------------------------------------------


def test_what_no_code_here_knows_can_be_repaired_by_its_store_and_id(bench: Bench) -> None:
    task = paying(bench)
    bench.start(task)
    bench.die(task)
    unregister(task)
    assert repair.grant(bench.store, "t", attempts=2, sender="ann").max_attempts == task.max_attempts + 2
    assert repair.mark_not_done(bench.store, "t", sender="ann").status == "ready"
    assert repair.retry_now(bench.store, "t", sender="ann").due
    bench.die(task)
    with pytest.raises(ValueNotSerializable):
        repair.mark_done(bench.store, "t", State())
    marked = repair.mark_done(bench.store, "t", {"ran": ["by hand"], "n": 0}, sender="ann")
    assert (marked.status, marked.step_index) == ("ready", 1)
    with pytest.raises(UnknownDefinition):
        repair.migrate(bench.store, "t")
    with pytest.raises(UnknownDefinition):
        repair.fork(bench.store, "t")
    assert bench.run(task).state.ran == ("by hand", "told")
    assert {sender for _, sender in repairs(bench, task)} == {"ann"}


def test_the_last_step_of_unknown_code_is_known_by_its_fingerprint(bench: Bench) -> None:
    task = paying(bench)
    bench.start(task)
    bench.one_step(task)
    bench.die(task)
    unregister(task)
    assert repair.mark_done(bench.store, "t", {"ran": [], "n": 1}).status == "completed"


def test_steps_that_were_not_noted_cannot_be_counted(bench: Bench) -> None:
    task = paying(bench)
    bench.start(task)
    bench.die(task)
    bench.rows.change("t", "fingerprint", "0" * 64)
    with pytest.raises(RepairRefused, match="were not noted"):
        repair.mark_done(bench.store, "t", {})


def test_cancel_by_store_and_id_names_the_open_step(bench: Bench) -> None:
    task = paying(bench)
    bench.start(task)
    bench.die(task)
    unregister(task)
    assert repair.cancel(bench.store, "t", "why", sender="ann").reason == "why (step 'pay' was open)"
    with pytest.raises(TaskNotFound, match="'nobody'"):
        repair.cancel(bench.store, "nobody")
