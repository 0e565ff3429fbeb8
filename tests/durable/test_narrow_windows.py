"""What comes between two statements of a worker, or after a lease that nobody gave back, leaves no task astray."""

from __future__ import annotations

from typing import Any

from django_statestore.durable import NotDone, StepContext

from .conftest import Bench, State


def test_a_grant_between_the_refusal_of_an_entry_and_the_parking_lets_the_step_be_entered(bench: Bench) -> None:
    task = bench.define(max_attempts=1)

    @task.step(replay="reconcile")
    def pay(state: State, ctx: StepContext) -> State:
        return state.then("paid")

    @pay.reconcile
    def ask(state: State, ctx: StepContext) -> Any:
        return NotDone

    bench.start(task)
    bench.die(task)
    flow, reply, asked, refused = bench.drive(task).run(), None, False, False
    try:
        while True:
            action = flow.send(reply)
            if refused:
                bench.call(bench.get(task).grant, attempts=1)
                asked = refused = False
            reply = action.run()
            refused = asked and reply is None
            asked = asked or reply is NotDone
    except StopIteration as stop:
        left = stop.value
    assert not asked, "the entry was not refused"
    assert (left.status, left.reason, left.attempts) == ("completed", "", 2)


def test_a_finished_task_on_which_a_lease_of_the_contract_has_lapsed_is_not_due(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def work(state: State, ctx: StepContext) -> State:
        return state

    bench.start(task)
    bench.run(task)
    assert bench.call(bench.store.durable.claim, "t", lease=60) is not None
    bench.age(61)
    assert bench.engine.tasks_due([task.fingerprint], 10).run() == []
    assert bench.engine.tasks_notify([task.fingerprint], 1000, 10).run() == []
    assert bench.engine.tasks_diverge([], 1).run() == []
    assert bench.get(task).reason == ""
