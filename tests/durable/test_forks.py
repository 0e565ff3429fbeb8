"""A fork goes on where another task stood, with its items and full limits, and is itself started once."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import connections, transaction

from django_statestore.contracts.taskrecord import RING
from django_statestore.durable import DurableTask, ModelBudget, Repeat, StepContext, TaskHandle
from django_statestore.durable.registry import unregister
from django_statestore.exceptions import (
    DefinitionMismatch,
    FingerprintMismatch,
    InvalidArgument,
    RevisionMismatch,
    SnapshotGone,
    StateInvalid,
    TaskExists,
    TaskNotFound,
)
from django_statestore.services import repair
from django_statestore.services.purge import purge
from tests.durable.conftest import Bench, State, on_databases


def defined(bench: Bench, *, turns: int = 1, steps: tuple[str, ...] = ("one", "two", "three"), **options: Any) -> Any:
    """Define a task whose steps each append their name; the first is repeated."""
    task = bench.define(**({"max_attempts": 99} | options))
    for name in steps:

        def step(state: State, ctx: StepContext) -> object:
            ctx.append("steps", f"{ctx.step} {ctx.turn}")
            state = replace(state.then(ctx.step), n=state.n + 1) if turns == 1 else replace(state, n=state.n + 1)
            return Repeat(state) if ctx.step == "one" and ctx.turn < turns else state

        step.__name__ = name
        task.step(replay="safe")(step)
    return task


def finished(bench: Bench, task: DurableTask[State]) -> TaskHandle[State]:
    bench.start(task)
    return bench.run(task)


def fork(bench: Bench, handle: TaskHandle[State], **options: Any) -> TaskHandle[State]:
    return bench.call(handle.fork, **options)


def test_a_fork_goes_on_from_the_save_before_its_step(bench: Bench) -> None:
    task = defined(bench, model_budget=ModelBudget(9, per_attempt=3))
    source = finished(bench, task)
    forked = fork(bench, source, from_step="two", task_id="f")
    assert (forked.id, forked.status, forked.step, forked.state) == ("f", "ready", "two", State(("one",), 1))
    assert forked.forked_from == source.record.id
    assert (forked.record.attempts, forked.record.reserved_calls, forked.record.max_attempts) == (0, 0, 99)
    assert forked.record.due
    assert bench.call(forked.items, "steps") == ["one 1"]
    done = bench.call(forked.run)
    assert (done.status, done.state) == ("completed", State(("one", "two", "three"), 3))
    assert bench.call(done.items, "steps") == ["one 1", "two 1", "three 1"]
    assert bench.outcomes("f")[0] == ("", "forked")


def test_a_fork_may_begin_with_the_first_step_under_an_id_of_its_own(bench: Bench) -> None:
    task = defined(bench)
    source = finished(bench, task)
    forked = fork(bench, source, from_step="one")
    assert (forked.step, forked.state, bench.call(forked.items, "steps")) == ("one", State(), [])
    assert forked.id not in ("", source.id)
    assert bench.call(forked.run).state == source.state


def test_a_fork_takes_a_state_of_its_own(bench: Bench) -> None:
    task = defined(bench)
    source = finished(bench, task)
    forked = fork(bench, source, from_step="three", state=State(("edited",), 40), task_id="f")
    assert bench.call(forked.items, "steps") == ["one 1", "two 1"], "items go with the save, which is kept"
    assert bench.call(forked.run).state == State(("edited", "three"), 41)
    plain = fork(bench, source, from_step="three", state={"ran": ["plain"], "n": 1}, task_id="g")
    assert plain.state == State(("plain",), 1)
    with pytest.raises(StateInvalid):
        fork(bench, source, from_step="one", state={"n": "x"})


def test_an_open_task_may_be_forked_and_is_left_alone(bench: Bench) -> None:
    task = defined(bench)
    source = bench.start(task)
    bench.one_step(task)
    before = bench.rows.everything("t")
    assert bench.call(fork(bench, source, from_step="one", task_id="f").run).status == "completed"
    assert bench.rows.everything("t") == before


def test_a_save_that_is_gone_can_only_be_made_up_for_by_a_state(bench: Bench) -> None:
    task = defined(bench, turns=RING + 3)
    source = finished(bench, task)
    assert fork(bench, source, from_step="one").state.n == 6, "the oldest save that is kept at that step"
    short = defined(bench, steps=("one", "two", *(f"more{number}" for number in range(RING))))
    bench.start(short, "short")
    handle = bench.run(short, "short")
    with pytest.raises(SnapshotGone, match=r"a save before step 'two' of the task 'short'"):
        fork(bench, handle, from_step="two")
    forked = fork(bench, handle, from_step="two", state=State(n=100))
    assert bench.call(forked.items, "steps") == [], "no save, no items"
    assert bench.call(forked.run).state.n == 100 + RING + 1


def test_the_same_fork_again_is_the_same_task_and_another_is_refused(bench: Bench) -> None:
    task = defined(bench)
    source = finished(bench, task)
    first = fork(bench, source, from_step="two", task_id="f")
    bench.call(first.run)
    again = fork(bench, source, from_step="two", task_id="f", sender="somebody else")
    assert (again.record.id, again.status) == (first.record.id, "completed")
    for options in ({"from_step": "three"}, {"from_step": "two", "state": State()}):
        with pytest.raises(TaskExists, match="'f'"):
            fork(bench, source, task_id="f", **options)
    with pytest.raises(TaskExists, match="'t'"):
        fork(bench, source, from_step="one", task_id="t")
    with pytest.raises(TaskExists, match="'f'"):
        bench.start(task, "f")


def test_a_fork_takes_no_calls_no_signals_and_no_repairs_along(bench: Bench) -> None:
    made: list[int] = []
    task = bench.define()

    @task.step(replay="safe")
    def first(state: State, ctx: StepContext) -> State:
        return state.then(str(ctx.call("dear", lambda: made.append(1) or len(made))))  # type: ignore[func-returns-value]

    source = bench.start(task)
    bench.call(source.signal, "early", 1)
    bench.call(source.retry_now, sender="ann")
    bench.run(task)
    forked = fork(bench, source, from_step="first")
    assert (bench.call(forked.journal), bench.call(forked.letters)) == ([], [])
    assert bench.call(forked.run).state.ran == ("2",)


def test_a_fork_keeps_what_the_source_has_spooled_though_that_is_purged(bench: Bench) -> None:
    task: DurableTask[Any] = bench.define(deadline=10**7, state=None, is_state=lambda state: True)

    @task.step(replay="safe")
    def fetch(state: Any, ctx: StepContext) -> Any:
        return ctx.spool(b"many bytes", name="fetched").ref

    @task.step(replay="safe")
    def read(state: Any, ctx: StepContext) -> Any:
        return ctx.store.spool.open(state).read_all()

    bench.call(task.start, None, task_id="t", namespace=bench.names)
    source = bench.run(task)
    forked: TaskHandle[Any] = fork(bench, source, from_step="read")
    bench.age(15 * 86_400)
    purge(bench.alias)
    assert bench.rows.ids() == [forked.id]
    assert bench.call(forked.run).state == "many bytes"


def test_another_step_definition_or_shape_is_refused(bench: Bench) -> None:
    task = defined(bench, id="forks.t")
    source = finished(bench, task)
    with pytest.raises(InvalidArgument, match="its steps are one, two, three"):
        fork(bench, source, from_step="four")
    with pytest.raises(TaskNotFound):
        repair.fork(bench.store, "nobody")
    unregister(task)
    newer = defined(bench, id="forks.t", revision="2", steps=("one", "check", "three"))
    seen = bench.call(newer.get, "t", namespace=bench.names)
    with pytest.raises(RevisionMismatch, match=r"give the state.*step 'two' is gone; step 'check' is new"):
        fork(bench, seen, from_step="three")
    forked = fork(bench, seen, from_step="three", state=State(n=7))
    assert (forked.record.revision, bench.call(forked.run).state.n) == ("2", 8)
    assert bench.call(forked.items, "steps") == ["one 1", "two 1", "three 1"]
    assert fork(bench, seen, from_step="check", state=State()).step == "check"
    unregister(newer)
    same = defined(bench, id="forks.t", steps=("one", "three"))
    with pytest.raises(FingerprintMismatch, match="step 'two' is gone"):
        fork(bench, bench.call(same.get, "t", namespace=bench.names), from_step="one")
    other = defined(bench)
    bench.start(other, "other")
    bench.rows.change("other", "definition", "forks.t")
    with pytest.raises(DefinitionMismatch):
        fork(bench, TaskHandle("other", bench.names, other, bench.record("other")))


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_fork_joins_the_callers_transaction(bench: Bench) -> None:
    source = finished(bench, defined(bench))
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=bench.alias):
        fork(bench, source, from_step="one", task_id="f")
        raise ZeroDivisionError
    assert bench.rows.ids() == ["t"]
    with transaction.atomic(using=bench.alias):
        fork(bench, source, from_step="one", task_id="f")
        fork(bench, source, from_step="one", task_id="f")
    assert bench.rows.ids() == ["f", "t"]


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_fork_inside_a_block_on_another_database_waits_for_its_commit(bench: Bench) -> None:
    others = [alias for alias in connections if alias != bench.alias]
    if not others:
        return
    source = finished(bench, defined(bench))
    with transaction.atomic(using=others[0]):
        forked = fork(bench, source, from_step="two", task_id="f")
        assert (forked.step, forked.forked_from) == ("two", source.record.id)
        assert bench.rows.ids() == ["t"]
    assert bench.call(forked.refresh).step == "two"


def test_without_a_step_a_fork_goes_on_where_the_task_stands(bench: Bench) -> None:
    task = defined(bench)
    bench.start(task)
    bench.one_step(task)
    source = bench.get(task)
    forked = fork(bench, source, task_id="f")
    assert (forked.step, forked.state, forked.record.attempts) == ("two", source.state, 0)
    assert bench.run(task).state == bench.call(forked.run).state
    assert fork(bench, source, task_id="f").record.id == forked.record.id, "the same fork again"
    with pytest.raises(InvalidArgument, match="no step left: say by from_step"):
        fork(bench, bench.get(task), task_id="g")
