"""Code that cannot continue a task lets it go; code that can takes it up."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from django_statestore.durable import DurableTask, Repeat, StepContext, WaitFor
from django_statestore.durable.registry import known_fingerprints, register, unregister
from django_statestore.exceptions import (
    DefinitionMismatch,
    FingerprintMismatch,
    RevisionMismatch,
    StateInvalid,
)
from django_statestore.services.resume import resume
from django_statestore.services.sweep import sweep
from tests.durable.conftest import Bench, State
from tests.durable.hearing import listening


@dataclass(frozen=True)
class OtherState:
    total: int


def made(bench: Bench, id: str, *steps: str, **options: Any) -> DurableTask[State]:
    """Deploy a definition in place of the one of the same id."""
    known = {definition.id: definition for definition in known_fingerprints().values()}
    if id in known:
        unregister(known[id])
    task = bench.define(id, **({"deadline": 86400} | options))
    for name in steps:

        def step(state: State, ctx: StepContext) -> State:
            return state.then(ctx.step)

        step.__name__ = name
        task.step(replay="safe")(step)
    return task


CHANGES: dict[str, tuple[type[Exception], str, tuple[str, ...], dict[str, Any]]] = {
    "another-definition": (DefinitionMismatch, "deploy.other", ("one", "two"), {}),
    "another-revision": (RevisionMismatch, "deploy.t", ("one", "two"), {"revision": "2"}),
    "other-steps": (FingerprintMismatch, "deploy.t", ("one", "three"), {}),
    "another-order": (FingerprintMismatch, "deploy.t", ("two", "one"), {}),
    "another-state": (StateInvalid, "deploy.t", ("one", "two"), {"state": OtherState}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_mismatch_has_its_own_error_and_only_lets_go(bench: Bench, change: str) -> None:
    error, id, steps, options = CHANGES[change]
    old = made(bench, "deploy.t", "one", "two")
    bench.start(old)
    bench.one_step(old)
    before = bench.record()
    new = made(bench, id, *steps, **options)
    with pytest.raises(error):
        bench.run(new)
    after = bench.record()
    assert (after.status, after.step_index, after.attempts, after.state, after.reason) == (
        before.status, before.step_index, before.attempts, before.state, "",
    )  # fmt: skip
    assert after.wake_at is not None
    assert 59 < (after.wake_at - after.now).total_seconds() <= 60
    assert after.last_error
    again = made(bench, "deploy.t", "one", "two")
    bench.age(61)
    assert bench.run(again).state.ran == ("one", "two")


@pytest.mark.parametrize(("change", "reason"), [("another-revision", "diverged"), ("another-state", "state_invalid")])
def test_only_after_the_grace_is_it_parked(bench: Bench, change: str, reason: str) -> None:
    error, id, steps, options = CHANGES[change]
    bench.start(made(bench, "deploy.t", "one", "two"))
    new = made(bench, id, *steps, **options)
    for _ in range(3):
        with pytest.raises(error):
            bench.run(new)
        bench.age(1300)
    with pytest.raises(error):
        bench.run(new)
    assert (bench.record().reason, bench.record().parked) == (reason, True)


def test_the_sweep_parks_what_no_code_knows_only_after_the_grace_and_takes_it_up_again(bench: Bench) -> None:
    task = made(bench, "deploy.t", "one", "two")
    bench.start(task)
    bench.one_step(task)
    unregister(task)
    sweep(bench.alias)
    noted = bench.record()
    assert (noted.reason, noted.due) == ("", True), "a process that knows it may take it meanwhile"
    bench.age(3601)
    sweep(bench.alias)
    assert bench.record().reason == "diverged"
    again = made(bench, "deploy.t", "one", "two")
    sweep(bench.alias)
    assert bench.record().reason == ""
    assert bench.run(again).state.ran == ("one", "two")


def test_an_unknown_definition_can_be_cancelled_all_the_same(bench: Bench) -> None:
    task = made(bench, "deploy.t", "one", "two")
    bench.start(task)
    bench.die(task)
    new = made(bench, "deploy.t", "one", "two", revision="2")
    assert bench.cancel(new).reason == "enough (step 'one' was open)"


def test_a_message_for_unknown_code_is_logged_and_leaves_the_task_to_other_code(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    task = made(bench, "deploy.t", "one", "two")
    bench.start(task)
    bench.one_step(task)
    before = bench.record()
    unregister(task)
    resume(bench.alias, bench.names, "t")
    assert "UnknownDefinition" in caplog.text
    after = bench.record()
    assert (after.status, after.step_index, after.attempts, after.state, after.reason) == (
        before.status, before.step_index, before.attempts, before.state, "",
    )  # fmt: skip
    assert after.wake_at is not None
    assert 59 < (after.wake_at - after.now).total_seconds() <= 60
    assert "deploy.t" in after.last_error
    bench.age(61)
    assert bench.run(made(bench, "deploy.t", "one", "two")).state.ran == ("one", "two")


def test_messages_for_unknown_code_park_only_after_the_grace(bench: Bench) -> None:
    task = made(bench, "deploy.t", "one")
    bench.start(task)
    unregister(task)
    reasons = []
    with listening() as ears:
        for _ in range(4):
            resume(bench.alias, bench.names, "t")
            reasons.append(bench.record().reason)
            bench.age(1300)
        resume(bench.alias, bench.names, "t")
    assert reasons == ["", "", "", "diverged"]
    assert [(heard.name, heard.sender, heard["reason"]) for heard in ears.all] == [("task_parked", None, "diverged")]


def test_an_interrupted_step_of_unknown_code_stays_open(bench: Bench) -> None:
    task = made(bench, "deploy.t", "one")
    bench.start(task)
    bench.die(task)
    unregister(task)
    resume(bench.alias, bench.names, "t")
    left = bench.record()
    assert (left.status, left.attempts, left.due, left.leased) == ("running", 1, False, False)
    bench.age(61)
    assert bench.run(made(bench, "deploy.t", "one")).checkpoint.attempt_count == 2


def test_a_task_that_a_living_worker_holds_is_left_alone_by_other_code(bench: Bench) -> None:
    task = made(bench, "deploy.t", "one")
    bench.start(task)
    record = bench.record()
    at = record.position
    assert bench.engine.task_claim(at, "old code", 60_000, enter=True, calls=0).run()
    unregister(task)
    held = bench.rows.everything("t")
    resume(bench.alias, bench.names, "t")
    sweep(bench.alias)
    assert bench.rows.everything("t") == held


def test_old_and_new_code_side_by_side_park_nothing_while_the_old_goes_on(bench: Bench) -> None:
    task = bench.define("deploy.t", deadline=86400)

    @task.step(replay="safe")
    def again(state: State, ctx: StepContext) -> object:
        return Repeat(state.then("turn"), delay=2400)

    bench.start(task)
    for _ in range(4):
        with unknown(task):
            sweep(bench.alias)
            resume(bench.alias, bench.names, "t")
        bench.age(61)
        bench.run(task)
        bench.age(2400)
    assert (bench.record().turn, bench.record().reason) == (5, "")


@contextmanager
def unknown(task: DurableTask[State]) -> Iterator[None]:
    """Be a process of the release that does not have this definition."""
    unregister(task)
    try:
        yield
    finally:
        register(task)


def test_a_signal_that_comes_between_two_releases_is_not_lost(bench: Bench) -> None:
    task = bench.define("deploy.t", deadline=86400)

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return WaitFor(state, "answer", timeout=80000)

    @task.step(replay="safe")
    def tell(state: State, ctx: StepContext) -> State:
        assert ctx.received is not None
        return state.then("told", ctx.received.payload)

    bench.start(task)
    bench.run(task)
    with unknown(task):
        bench.age(7200)
        sweep(bench.alias)
        assert bench.record().mismatch_since is None, "a task that waits is no business of anybody"
        bench.call(task.signal, "t", "answer", 7, namespace=bench.names)
        resume(bench.alias, bench.names, "t")
        assert not bench.record().due
    bench.age(61)
    assert bench.run(task).state.n == 7


def test_a_sweep_takes_up_no_task_whose_state_could_not_be_read(bench: Bench) -> None:
    task = made(bench, "deploy.t", "one", "two")
    bench.start(task)
    other = made(bench, "deploy.t", "one", "two", state=OtherState)
    for _ in range(2):
        with pytest.raises(StateInvalid):
            bench.run(other)
        bench.age(3601)
    sweep(bench.alias)
    assert bench.record().reason == "state_invalid", "its definition is known, and was all the time"
    task = made(bench, "deploy.t", "one", "two")
    bench.call(bench.get(task).retry_now)
    assert bench.run(task).state.ran == ("one", "two")


def test_a_task_that_only_stands_in_a_queue_is_not_parked_by_a_release_that_cannot_run_it(bench: Bench) -> None:
    task = made(bench, "deploy.t", "one")
    bench.start(task)
    for _ in range(4):
        with unknown(task):
            sweep(bench.alias)
        noted = bench.record().mismatch_since
        sweep(bench.alias)
        assert (noted is not None, bench.record().mismatch_since) == (True, None)
        bench.age(2400)
    with unknown(task):
        sweep(bench.alias)
    assert (bench.record().reason, bench.record().due) == ("", True)


def test_a_sweep_does_not_forget_for_how_long_a_state_could_not_be_read(bench: Bench) -> None:
    task = made(bench, "deploy.t", "one", "two")
    bench.start(task)
    other = made(bench, "deploy.t", "one", "two", state=OtherState)
    with pytest.raises(StateInvalid):
        bench.run(other)
    noted = bench.record().mismatch_since
    assert noted is not None
    bench.age(61)
    sweep(bench.alias)
    assert bench.record().due
    assert bench.record().mismatch_since is not None
