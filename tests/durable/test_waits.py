"""Sleeps and waits: the task rests in the store, no worker holds it, and what it waited for is not lost."""

from typing import Any

import pytest

from django_statestore.contracts.tasks import Waking
from django_statestore.durable import DurableTask, Repeat, Signal, Sleep, StepContext, WaitFor
from django_statestore.exceptions import InvalidArgument, InvalidTTL
from tests.durable.conftest import Bench, State


def asking(bench: Bench, *, timeout: float | None = None, **options: Any) -> DurableTask[State]:
    """Define a task that asks in one step and hears the answer in the next."""
    task = bench.define(**options)

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return WaitFor(state.then("asked"), "answer", timeout=timeout)

    @task.step(replay="safe")
    def hear(state: State, ctx: StepContext) -> State:
        got = ctx.received
        return state.then("silence" if got is None else f"{got.name} {got.payload} by {got.sender} try {ctx.attempt}")

    return task


def signal(bench: Bench, task: DurableTask[State], payload: object, **options: Any) -> Any:
    return bench.call(task.signal, "t", "answer", payload, namespace=bench.names, **options)


# -- sleeps -----------------------------------------------------------------------------------------------------------


def test_a_sleep_finishes_its_step_and_the_next_is_entered_when_it_is_over(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def rest(state: State, ctx: StepContext) -> object:
        return Sleep(state.then("rested"), 60)

    @task.step(replay="safe")
    def work(state: State, ctx: StepContext) -> State:
        return state.then(f"worked {ctx.received}")

    bench.start(task)
    asleep = bench.run(task)
    assert (asleep.status, asleep.step, asleep.state.ran, asleep.attempt) == ("ready", "work", ("rested",), 0)
    assert (asleep.record.worker, asleep.record.attempts) == ("", 1)
    assert asleep.record.wake_at == asleep.record.resume_at
    assert bench.run(task).record.attempts == 1, "a sleeping task is not entered"
    bench.age(61)
    done = bench.run(task)
    assert (done.status, done.state.ran, done.record.attempts) == ("completed", ("rested", "worked None"), 2)
    assert bench.outcomes() == [("", "started"), ("rest", "slept"), ("work", "done")]


def test_a_sleep_in_the_last_step_completes_when_it_is_over(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def rest(state: State, ctx: StepContext) -> object:
        return Sleep(state.then("rested"), 60)

    bench.start(task)
    asleep = bench.run(task)
    assert (asleep.status, asleep.record.step_index, asleep.checkpoint.next_step_index) == ("ready", 1, 1)
    bench.age(61)
    done = bench.run(task)
    assert (done.status, done.reason, done.state.ran, done.record.attempts) == ("completed", "", ("rested",), 1)
    assert done.finished_at is not None


def test_a_task_that_sleeps_in_its_last_step_completes_at_the_deadline(bench: Bench) -> None:
    task = bench.define(deadline=30)

    @task.step(replay="safe")
    def rest(state: State, ctx: StepContext) -> object:
        return Sleep(state.then("rested"), 60)

    bench.start(task)
    bench.run(task)
    bench.age(31)
    assert (bench.run(task).status, bench.get(task).reason) == ("completed", "")


def test_a_deadline_ends_a_sleep_and_cancels(bench: Bench) -> None:
    task = asking(bench, deadline=30)
    bench.start(task)
    bench.run(task)
    bench.age(31)
    ended = bench.run(task)
    assert (ended.status, ended.reason, ended.state.ran) == ("cancelled", "deadline_passed", ("asked",))


def test_a_repeat_with_a_delay_is_a_turn_that_costs_no_attempt(bench: Bench) -> None:
    task = bench.define(max_attempts=1)

    @task.step(replay="safe")
    def poll(state: State, ctx: StepContext) -> object:
        state = state.then(f"turn {ctx.turn}")
        return state if ctx.turn == 3 else Repeat(state, delay=10)

    bench.start(task)
    for _ in range(2):
        assert bench.run(task).status == "ready"
        assert bench.run(task).record.turn == bench.get(task).record.save_seq + 1
        bench.age(11)
    assert bench.run(task).state.ran == ("turn 1", "turn 2", "turn 3")


def test_a_spurious_wake_cuts_no_sleep_short(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def rest(state: State, ctx: StepContext) -> object:
        return Sleep(state, 60)

    bench.start(task)
    asleep = bench.run(task)
    held = bench.store.durable.claim("t", lease=1)  # a lease of the contract moves the due time
    assert held is not None
    bench.age(2)
    woken = bench.run(task)
    assert woken.status == "ready"
    assert woken.record.wake_at == woken.record.resume_at
    assert asleep.record.resume_at is not None


# -- waits ------------------------------------------------------------------------------------------------------------


def test_the_next_step_receives_the_signal_that_was_waited_for(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    waits = bench.run(task)
    assert (waits.status, waits.step, waits.record.waiting_for, waits.record.worker) == ("ready", "hear", "answer", "")
    assert waits.record.wake_at == waits.record.deadline
    assert bench.run(task).record.attempts == 1, "nothing has come yet"
    signal(bench, task, {"ok": True}, sender="ann")
    done = bench.run(task)
    assert (done.status, done.state.ran) == ("completed", ("asked", "answer {'ok': True} by ann try 1"))
    assert done.record.attempts == 2


def test_a_signal_that_is_sent_early_is_kept(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    signal(bench, task, "early")
    done = bench.run(task)
    assert (done.status, done.state.ran) == ("completed", ("asked", "answer early by  try 1"))


def test_a_wait_that_times_out_receives_nothing(bench: Bench) -> None:
    task = asking(bench, timeout=60)
    bench.start(task)
    bench.run(task)
    bench.age(61)
    assert bench.run(task).state.ran == ("asked", "silence")


def test_a_signal_that_was_taken_before_the_time_out_wins_over_it(bench: Bench) -> None:
    task = asking(bench, timeout=60)
    bench.start(task)
    bench.run(task)
    signal(bench, task, "just in time")
    bench.age(61)
    assert bench.run(task).state.ran[1].startswith("answer just in time")


def test_another_signal_leaves_the_task_waiting_and_costs_no_attempt(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    bench.run(task)
    bench.call(task.signal, "t", "other", 1, namespace=bench.names)
    waits = bench.run(task)
    assert (waits.status, waits.record.attempts, waits.record.wake_at) == ("ready", 1, waits.record.deadline)
    signal(bench, task, 2)
    assert bench.run(task).status == "completed"


def test_a_step_that_is_entered_again_receives_the_same_signal(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    bench.run(task)
    signal(bench, task, "once")
    signal(bench, task, "twice")
    record = bench.record()
    mail = bench.engine.task_mail(record.id, "answer").run()
    assert mail is not None
    at = record.position
    waking = Waking(record.signal_seq, mail.id)
    assert bench.engine.task_claim(at, "died", 60_000, enter=True, calls=0, waking=waking).run() is not None
    bench.age(61)
    assert bench.run(task).state.ran == ("asked", "answer once by  try 2")


def test_signals_of_one_name_are_given_first_in_first_out_and_each_once(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def listen(state: State, ctx: StepContext) -> object:
        heard = state if ctx.received is None else state.then(str(ctx.received.payload))
        return heard if len(heard.ran) == 3 else Repeat(heard, wait_for="answer")

    bench.start(task)
    for number in range(3):
        signal(bench, task, number)
    assert bench.run(task).state.ran == ("0", "1", "2")


def test_what_a_step_received_is_forgotten_with_its_save(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return WaitFor(state, "answer")

    @task.step(replay="safe")
    def hear(state: State, ctx: StepContext) -> State:
        return state.then(str(ctx.received is not None))

    @task.step(replay="safe")
    def after(state: State, ctx: StepContext) -> State:
        return state.then(str(ctx.received is not None))

    bench.start(task)
    signal(bench, task, 1)
    assert bench.run(task).state.ran == ("True", "False")


def test_a_signal_is_whole(bench: Bench) -> None:
    task, got = bench.define(), []

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return WaitFor(state, "answer")

    @task.step(replay="safe")
    def hear(state: State, ctx: StepContext) -> State:
        got.append(ctx.received)
        return state

    bench.start(task)
    signal(bench, task, ("a", {1}), sender="ann")
    bench.run(task)
    [received] = got
    assert isinstance(received, Signal)
    assert (received.name, received.payload, received.sender) == ("answer", ("a", {1}), "ann")
    assert received.at.utcoffset() is not None


def test_a_wait_in_the_last_step_completes_when_the_signal_comes(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return WaitFor(state.then("asked"), "answer")

    bench.start(task)
    assert bench.run(task).status == "ready"
    signal(bench, task, 1)
    done = bench.run(task)
    assert (done.status, done.record.attempts) == ("completed", 1)


def test_a_waiting_task_that_is_cancelled_ends_at_once(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    bench.run(task)
    ended = bench.cancel(task, "no more")
    assert (ended.status, ended.reason, ended.state.ran) == ("cancelled", "no more", ("asked",))


def test_waking_without_attempts_left_parks_and_loses_no_signal(bench: Bench) -> None:
    task = asking(bench, max_attempts=2)
    bench.start(task)
    bench.die(task)  # spends the attempt that the second step would need
    assert bench.run(task).status == "ready"
    signal(bench, task, "kept")
    parked = bench.run(task)
    assert (parked.parked, parked.reason) == (True, "attempts_exhausted")
    bench.call(parked.grant, attempts=1)
    assert bench.run(task).state.ran[1].startswith("answer kept")


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (lambda state: Sleep(state, 0), InvalidTTL),
        (lambda state: WaitFor(state, ""), InvalidArgument),
        (lambda state: Repeat(state, delay=1, wait_for="x"), InvalidArgument),
        (lambda state: Repeat(state, timeout=1), InvalidArgument),
        (lambda state: WaitFor(state, "x", permission="approve"), InvalidArgument),
        (lambda state: WaitFor(state, "x", form=dict), InvalidArgument),
    ],
)
def test_an_outcome_that_makes_no_sense_counts_as_raised(bench: Bench, outcome: Any, error: type[Exception]) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return outcome(state)

    bench.start(task)
    with pytest.raises((error, ValueError)):
        bench.run(task)
    assert (bench.get(task).status, bench.record().save_seq) == ("running", 0)
