"""Steps run in order, once each, and each save is one commit."""

from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore.durable import DurableTask, Fail, Finish, NotDone, Repeat, StepContext
from django_statestore.exceptions import BlobGone, StateInvalid, TaskNotFound, ValueNotSerializable
from django_statestore.services.purge import purge
from tests.durable.conftest import Bench, State, on_databases

WRITES = ("INSERT", "UPDATE", "DELETE", "WITH")


def writes(captured: CaptureQueriesContext) -> list[str]:
    """Return the statements that write; a CTE counts as one."""
    return [query["sql"] for query in captured if query["sql"].strip().upper().startswith(WRITES)]


def commits(captured: CaptureQueriesContext) -> int:
    """Return how many durable writes the statements make: each transaction, or write outside one, is one."""
    inside, count, wrote = False, 0, False
    for query in captured:
        sql = query["sql"].strip().upper()
        if sql.startswith("BEGIN"):
            inside, wrote = True, False
        elif sql.startswith("COMMIT"):
            inside, count = False, count + wrote
        elif sql.startswith(WRITES):
            wrote, count = True, count + (not inside)
    return count


def test_steps_run_in_order_and_the_task_completes(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def first(state: State, ctx: StepContext) -> State:
        return state.then(f"first {ctx.turn} {ctx.attempt}")

    @task.step(replay="safe")
    def second(state: State, ctx: StepContext) -> State:
        return state.then(f"second {ctx.turn} {ctx.attempt} {ctx.task_id}")

    started = bench.start(task)
    assert (started.status, started.step, started.attempt, started.state) == ("ready", "first", 0, State())
    done = bench.run(task)
    assert (done.status, done.step, done.reason) == ("completed", None, "")
    assert done.state == State(("first 1 1", "second 1 1 t"))
    assert done.checkpoint.attempt_count == 2
    assert done == bench.get(task) or done.state == bench.get(task).state
    assert bench.outcomes() == [("", "started"), ("first", "done"), ("second", "done")]


def test_a_completed_task_never_runs_again(bench: Bench) -> None:
    task, entered = bench.define(), []

    @task.step(replay="safe")
    def only(state: State, ctx: StepContext) -> State:
        entered.append(ctx.attempt)
        return state

    bench.start(task)
    bench.run(task)
    again = bench.run(task)
    assert (again.status, entered) == ("completed", [1])


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_n_steps_cost_n_plus_one_durable_writes_after_start(bench: Bench, steps: int) -> None:
    task = bench.define()
    for number in range(steps):

        def step(state: State, ctx: StepContext) -> State:
            return state.then(ctx.step)

        step.__name__ = f"step{number}"
        task.step(replay="safe")(step)
    connection = connections[bench.alias]
    with CaptureQueriesContext(connection) as starting:
        bench.start(task)
    with CaptureQueriesContext(connection) as running:
        assert bench.run(task).status == "completed"
    assert commits(starting) == 1
    assert commits(running) == steps + 1
    if connection.vendor == "postgresql":
        assert len(running) == 1 + 1 + steps, "one read, one claim-and-enter, one statement a commit"
        assert len(writes(starting)) == 1


def test_repeat_is_a_turn_and_not_a_retry(bench: Bench) -> None:
    task = bench.define(max_attempts=2)

    @task.step(replay="safe")
    def loop(state: State, ctx: StepContext) -> object:
        state = state.then(f"turn {ctx.turn} attempt {ctx.attempt}", state.n + 1)
        return Repeat(state) if state.n < 30 else state

    @task.step(replay="safe")
    def last(state: State, ctx: StepContext) -> State:
        return state.then(f"last turn {ctx.turn}")

    bench.start(task)
    done = bench.run(task)
    assert done.status == "completed"
    assert done.state.ran[:2] == ("turn 1 attempt 1", "turn 2 attempt 1")
    assert done.state.ran[-2:] == ("turn 30 attempt 1", "last turn 1")
    assert (done.checkpoint.attempt_count, done.checkpoint.max_attempts) == (31, 31)


def test_repeat_beyond_max_turns_ends_as_attempts_exhausted(bench: Bench) -> None:
    task = bench.define(max_turns=3, max_attempts=2)

    @task.step(replay="safe")
    def loop(state: State, ctx: StepContext) -> object:
        return Repeat(state.then("again"))

    bench.start(task)
    parked = bench.run(task)
    assert (parked.status, parked.reason, parked.parked) == ("ready", "attempts_exhausted", True)
    assert len(parked.state.ran) == parked.checkpoint.attempt_count == 4


def test_finish_completes_early(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def first(state: State, ctx: StepContext) -> object:
        return Finish(state.then("enough"))

    @task.step(replay="safe")
    def never(state: State, ctx: StepContext) -> State:
        raise AssertionError

    bench.start(task)
    done = bench.run(task)
    assert (done.status, done.state.ran, done.checkpoint.next_step_index) == ("completed", ("enough",), 2)


def test_fail_ends_the_task_with_its_code_and_its_old_state(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def refuse(state: State, ctx: StepContext) -> object:
        return Fail("card_declined")

    bench.start(task)
    ended = bench.run(task)
    assert (ended.status, ended.reason, ended.state) == ("cancelled", "card_declined", State())
    assert ended.finished_at is not None
    assert bench.run(task).status == "cancelled"


@pytest.mark.parametrize("wrong", [None, "text", {"ran": []}, NotDone, Repeat("text")], ids=repr)
def test_a_result_that_is_no_state_counts_as_raised(bench: Bench, wrong: object) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def careless(state: State, ctx: StepContext) -> object:
        return wrong

    bench.start(task)
    with pytest.raises(StateInvalid):
        bench.run(task)
    kept = bench.get(task)
    assert (kept.status, kept.attempt, kept.state) == ("running", 1, State())
    assert "StateInvalid" in kept.last_error


def test_a_state_without_a_type_is_judged_by_is_state(bench: Bench) -> None:
    task: DurableTask[Any] = bench.define(state=None, is_state=lambda value: isinstance(value, list))

    @task.step(replay="safe")
    def grow(state: list[object], ctx: StepContext) -> object:
        return [*state, object] if len(state) > 1 else Repeat([*state, {"at": (1, 2)}])

    bench.call(task.start, [0], task_id="t", namespace=bench.names)
    with pytest.raises(ValueNotSerializable, match=r"\$\[2\]"):
        bench.run(task)
    kept: Any = bench.get(task).state
    assert kept == [0, {"at": (1, 2)}]


def test_an_async_step_runs_in_both_forms(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    async def think(state: State, ctx: StepContext) -> State:
        return state.then("thought")

    bench.start(task)
    assert bench.run(task).state.ran == ("thought",)


def test_the_context_tells_what_a_step_may_know(bench: Bench) -> None:
    task = bench.define(app={"from": "definition"}, deadline=100)
    seen: dict[str, object] = {}

    @task.step(replay="safe")
    def look(state: State, ctx: StepContext) -> State:
        seen.update(
            app=ctx.app, fence=ctx.fence, remaining=ctx.remaining, cancelled=ctx.cancelled, names=ctx.store.names
        )
        ctx.progress(0.25, "a quarter\0")
        return state

    bench.start(task)
    done = bench.run(task, app="given")
    assert seen["app"] == "given"
    assert isinstance(seen["fence"], int)
    assert 90 < float(str(seen["remaining"])) <= 100
    assert (seen["cancelled"], seen["names"]) == (False, bench.names)
    assert done.progress == bench.get(task).progress == (0.25, "a quarter\\x00")


def test_spooled_bytes_live_as_long_as_the_task(bench: Bench) -> None:
    task: DurableTask[Any] = bench.define(state=None, is_state=lambda value: value is None or isinstance(value, dict))

    @task.step(replay="safe")
    def keep(state: object, ctx: StepContext) -> object:
        return dict(ctx.spool("line 0\nline 1", name="facts").ref)

    bench.call(task.start, None, task_id="t", namespace=bench.names)
    ref: Any = bench.run(task).state
    bench.age(10 * 86400)
    purge(bench.alias)
    assert bench.store.spool.open(ref).line(1) == "line 1"
    bench.age(10 * 86400)
    purge(bench.alias)
    purge(bench.alias)
    with pytest.raises(TaskNotFound):
        bench.get(task)
    with pytest.raises(BlobGone):
        bench.store.spool.open(ref)
