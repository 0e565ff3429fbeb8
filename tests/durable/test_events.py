"""What happens to a task is told by a signal and a log record: once, after the write, and without a value."""

import logging
from typing import Any

import pytest
from django.db import transaction

from django_statestore.contracts.taskrecord import TaskRecord
from django_statestore.durable import Backoff, DurableTask, Fail, Repeat, StepContext, events
from django_statestore.durable.registry import unregister
from django_statestore.exceptions import LeaseLost
from django_statestore.services.resume import resume
from django_statestore.services.sweep import sweep
from django_statestore.signals import step_finished, task_finished, task_started
from django_statestore.testing import crash_at
from tests.durable.conftest import Bench, State, on_databases
from tests.durable.hearing import Heard, listening

committing = pytest.mark.django_db(transaction=True)
"""A start is told on commit."""

SECRET = "a value that nobody but the steps may see"


def two_steps(bench: Bench, **options: Any) -> DurableTask[State]:
    task = bench.define(**options)

    @task.step(replay="safe")
    def one(state: State, ctx: StepContext) -> State:
        return state.then("one")

    @task.step(replay="safe")
    def two(state: State, ctx: StepContext) -> State:
        return state.then("two")

    return task


def failing(bench: Bench, **options: Any) -> DurableTask[State]:
    task = bench.define(**options)

    @task.step(replay="safe")
    def fragile(state: State, ctx: StepContext) -> State:
        if ctx.attempt == 1:
            raise ValueError(SECRET)
        return state.then("done")

    return task


@committing
def test_the_life_of_a_task_is_told_once_and_in_order(bench: Bench) -> None:
    task = two_steps(bench)
    with listening() as ears:
        bench.start(task)
        bench.run(task)
    assert ears.names == ["task_started", "step_finished", "step_finished", "task_finished"]
    assert {heard.sender for heard in ears.all} == {task}
    common = {
        "store": bench.alias,
        "namespace": bench.names,
        "task_id": "t",
        "definition": task.id,
        "revision": "1",
        "reason": "",
    }
    started, one, two, finished = (heard.told for heard in ears.all)
    assert started == common | {"status": "ready", "step": "one"}
    assert one.pop("milliseconds") >= 0
    assert two.pop("milliseconds") >= 0
    ran = {"turn": 1, "attempt": 1, "outcome": "done"}
    assert one == common | ran | {"status": "running", "step": "one"}
    assert two == common | ran | {"status": "completed", "step": "two"}
    assert finished == common | {"status": "completed", "step": None}


@committing
def test_what_is_told_leads_to_the_task(bench: Bench) -> None:
    task = two_steps(bench)
    with listening() as ears:
        bench.start(task)
    heard = ears.all[0]
    assert heard.sender.get(heard["task_id"], namespace=heard["namespace"]).status == "ready"


@committing
def test_each_is_told_after_its_write(bench: Bench) -> None:
    task, seen = two_steps(bench), list[tuple[str, int, str]]()

    def look(heard: Heard) -> None:
        record = bench.record()
        seen.append((heard.name, record.save_seq, record.status))

    with listening(look):
        bench.start(task)
        bench.run(task)
    assert seen == [
        ("task_started", 0, "ready"),
        ("step_finished", 1, "running"),
        ("step_finished", 2, "completed"),
        ("task_finished", 2, "completed"),
    ]


def test_a_known_id_is_not_told_again(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    with listening() as ears:
        bench.start(task)
    assert ears.names == []


@committing
@on_databases
def test_a_start_is_told_when_it_is_committed_and_never_if_it_is_not(bench: Bench) -> None:
    task = two_steps(bench)
    with listening() as ears:
        with transaction.atomic(using=bench.alias):
            task.start(State(), task_id="gone", namespace=bench.names)
            transaction.set_rollback(True, using=bench.alias)
        with transaction.atomic(using=bench.alias):
            task.start(State(), task_id="t", namespace=bench.names)
            assert ears.names == []
        assert [(heard.name, heard["task_id"]) for heard in ears.all] == [("task_started", "t")]


def test_a_step_that_raises_is_told_with_the_attempt_it_spent(bench: Bench) -> None:
    task = failing(bench, backoff=Backoff(first=10))
    bench.start(task)
    with listening() as ears:
        with pytest.raises(ValueError, match=SECRET):
            bench.run(task)
        bench.age(11)
        bench.run(task)
    told = [
        (heard["step"], heard["attempt"], heard["outcome"], heard["status"]) for heard in ears.named("step_finished")
    ]
    assert told == [("fragile", 1, "raised", "running"), ("fragile", 2, "done", "completed")]
    assert ears.names == ["step_finished", "step_finished", "task_finished"]


def test_each_turn_of_a_step_is_told(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def again(state: State, ctx: StepContext) -> object:
        return Repeat(state.then("turn")) if ctx.turn < 3 else state

    bench.start(task)
    with listening() as ears:
        bench.run(task)
    told = [(heard["turn"], heard["attempt"], heard["outcome"]) for heard in ears.named("step_finished")]
    assert told == [(1, 1, "repeated"), (2, 1, "repeated"), (3, 1, "done")]


def test_a_task_that_fails_is_told_as_cancelled_with_its_code(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def give_up(state: State, ctx: StepContext) -> object:
        return Fail("no_such_order")

    bench.start(task)
    with listening() as ears:
        bench.run(task)
    assert ears.names == ["step_finished", "task_finished"]
    assert [(heard["status"], heard["reason"]) for heard in ears.all] == [("cancelled", "no_such_order")] * 2


def test_a_cancel_that_ends_a_task_is_told_once(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    with listening() as ears:
        bench.cancel(task, "enough")
        sweep(bench.alias)
    assert [(heard.name, heard["status"], heard["reason"]) for heard in ears.all] == [
        ("task_finished", "cancelled", "enough")
    ]


def test_a_cancel_of_a_task_that_is_held_is_told_by_its_holder(bench: Bench) -> None:
    task, during = bench.define(), list[list[str]]()

    @task.step(replay="safe")
    def one(state: State, ctx: StepContext) -> State:
        task.cancel("t", "enough", namespace=bench.names)
        during.append(ears.names)
        return state

    @task.step(replay="safe")
    def two(state: State, ctx: StepContext) -> State:
        return state

    bench.start(task)
    with listening() as ears:
        bench.run(task)
    assert during == [[]]
    assert [(heard.name, heard["status"]) for heard in ears.all] == [
        ("step_finished", "cancelled"),
        ("task_finished", "cancelled"),
    ]


def test_a_deadline_that_has_passed_is_told_as_the_end(bench: Bench) -> None:
    task = two_steps(bench, deadline=10)
    bench.start(task)
    bench.age(11)
    with listening() as ears:
        assert bench.run(task).status == "cancelled"
    assert [(heard.name, heard["reason"]) for heard in ears.all] == [("task_finished", "deadline_passed")]


def test_a_task_that_is_parked_is_told_once(bench: Bench) -> None:
    task = bench.define(max_attempts=1)

    @task.step(replay="safe")
    def fragile(state: State, ctx: StepContext) -> State:
        raise ValueError(SECRET)

    bench.start(task)
    with pytest.raises(ValueError, match=SECRET):
        bench.run(task)
    bench.age(600)
    with listening() as ears:
        for _ in range(3):
            resume(bench.alias, bench.names, "t")
    assert [(heard.name, heard["reason"], heard["step"]) for heard in ears.all] == [
        ("task_parked", "attempts_exhausted", "fragile")
    ]


def test_a_save_that_parks_is_told_after_its_step(bench: Bench) -> None:
    task = two_steps(bench, max_attempts=2)
    bench.start(task)
    bench.die(task)
    with listening() as ears:
        bench.run(task)
    assert [(heard.name, heard["reason"], heard["step"]) for heard in ears.all] == [
        ("step_finished", "attempts_exhausted", "one"),
        ("task_parked", "attempts_exhausted", "two"),
    ]


def test_what_the_sweep_parks_is_told_once_without_its_code(bench: Bench) -> None:
    task = two_steps(bench, deadline=86400)
    bench.start(task)
    unregister(task)
    with listening() as ears:
        sweep(bench.alias)
        assert ears.of("t") == []
        bench.age(3601)
        sweep(bench.alias)
        sweep(bench.alias)
    (heard,) = ears.of("t")
    assert (heard.name, heard.sender, heard["reason"], heard["step"]) == ("task_parked", None, "diverged", "one")
    assert heard["definition"] == task.id


def test_a_worker_that_lost_its_lease_tells_so_and_nothing_else(bench: Bench) -> None:
    task, thief = bench.define(), list[TaskRecord]()

    @task.step(replay="safe")
    def slow(state: State, ctx: StepContext) -> State:
        if not thief:
            thief.append(bench.record())
            bench.age(61)
            bench.die(task)
        return state

    bench.start(task)
    with listening() as ears, pytest.raises(LeaseLost):
        bench.run(task)
    (heard,) = ears.all
    assert (heard.name, heard["step"], heard["turn"], heard["attempt"]) == ("lease_lost", "slow", 1, 1)


def test_a_worker_that_dies_tells_nothing_more(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    with listening() as ears, crash_at("one", "returned"):
        bench.run(task)
    assert ears.names == []


@committing
def test_a_receiver_that_raises_harms_neither_the_task_nor_the_others(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**kwargs: Any) -> None:
        raise RuntimeError("broken")

    class Nameless:
        def __call__(self, **kwargs: Any) -> None:
            raise KeyError("broken too")

    task, nameless = two_steps(bench), Nameless()
    for signal in (task_started, step_finished, task_finished):
        signal.connect(broken)
        signal.connect(nameless)
    try:
        with listening() as ears:
            bench.start(task)
            done = bench.run(task)
    finally:
        for signal in (task_started, step_finished, task_finished):
            signal.disconnect(broken)
            signal.disconnect(nameless)
    assert (done.status, done.checkpoint.attempt_count) == ("completed", 2)
    assert ears.names == ["task_started", "step_finished", "step_finished", "task_finished"]
    said = [record.getMessage() for record in caplog.records if "a receiver" in record.getMessage()]
    assert len(said) == 2 * 4
    assert said[0].startswith("a receiver of task_started failed: tests.durable.test_events.")
    assert {text.rpartition(" ")[2] for text in said} == {"RuntimeError", "KeyError"}
    assert "broken too" not in caplog.text


def test_receivers_may_be_coroutines_in_either_form(bench: Bench) -> None:
    task, told = two_steps(bench), list[str]()

    async def receive(sender: Any, step: str | None, **kwargs: Any) -> None:
        told.append(str(step))

    step_finished.connect(receive)
    try:
        bench.start(task)
        bench.run(task)
    finally:
        step_finished.disconnect(receive)
    assert told == ["one", "two"]


@committing
def test_a_receiver_of_one_definition_hears_of_no_other(bench: Bench) -> None:
    task, other, told = two_steps(bench), two_steps(bench), list[str]()

    def receive(task_id: str, **kwargs: Any) -> None:
        told.append(task_id)

    task_started.connect(receive, sender=task)
    try:
        bench.start(task, "mine")
        bench.start(other, "theirs")
    finally:
        task_started.disconnect(receive, sender=task)
    assert told == ["mine"]


LEVELS = {
    "task_started": logging.INFO,
    "step_finished": logging.DEBUG,
    "task_finished": logging.INFO,
    "task_parked": logging.WARNING,
    "lease_lost": logging.WARNING,
}


@committing
def test_each_is_one_log_record_that_says_the_same(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "django_statestore.durable")
    task = failing(bench, max_attempts=1)
    with listening() as ears:
        bench.start(task)
        with pytest.raises(ValueError, match=SECRET):
            bench.run(task)
        bench.age(600)
        bench.run(task)
    records = [record for record in caplog.records if hasattr(record, "event")]
    assert [record.event for record in records] == ["task_started", "step_finished", "task_parked"]
    for record, heard in zip(records, ears.all, strict=True):
        assert {name: getattr(record, name) for name in heard.told} == heard.told
        raised = heard.told.get("outcome") == "raised"
        assert record.levelno == (logging.WARNING if raised else LEVELS[heard.name])


@committing
def test_no_record_and_no_signal_holds_a_value(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    task = bench.define()

    @task.step(replay="safe")
    def first(state: State, ctx: StepContext) -> State:
        if ctx.attempt == 1:
            raise ValueError(SECRET)
        ctx.progress(0.5, SECRET)
        return state.then(SECRET)

    with listening() as ears:
        bench.start(task, state=State((SECRET,)))
        for _ in range(2):
            resume(bench.alias, bench.names, "t")
            bench.age(10)
    assert bench.record().status == "completed"
    assert len(ears.all) == 4
    assert SECRET not in repr([heard.told for heard in ears.all])
    ours = [record for record in caplog.records if record.name.startswith("django_statestore")]
    assert ours
    assert SECRET not in repr([(record.getMessage(), vars(record)) for record in ours])


def test_nothing_is_prepared_where_nobody_listens(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "django_statestore.durable")
    task = two_steps(bench)
    bench.start(task)
    record = bench.record()
    assert events.task_started(task, bench.store, record) is events.task_finished(task, bench.store, record)
