"""Code that cannot continue a task lets it go; code that can takes it up."""

from dataclasses import dataclass
from typing import Any

import pytest

from django_statestore.durable import DurableTask, StepContext
from django_statestore.durable.registry import known_fingerprints, unregister
from django_statestore.exceptions import (
    DefinitionMismatch,
    FingerprintMismatch,
    RevisionMismatch,
    StateInvalid,
    TaskMismatch,
)
from django_statestore.services.resume import resume
from django_statestore.services.sweep import sweep
from tests.durable.conftest import Bench, State


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


def test_a_message_for_unknown_code_is_logged_and_harmless(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    task = made(bench, "deploy.t", "one")
    bench.start(task)
    unregister(task)
    resume(bench.alias, bench.names, "t")
    assert "UnknownDefinition" in caplog.text
    assert bench.record().status == "ready"
    assert issubclass(RevisionMismatch, TaskMismatch)
