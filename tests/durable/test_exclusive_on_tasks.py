"""The lease and the saves of a foreign engine on tasks that the engine drives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from django_statestore.contracts.checkpoint import Checkpoint
from django_statestore.contracts.tasks import Waking
from django_statestore.durable import Backoff, DurableTask, Repeat, Sleep, StepContext, WaitFor
from django_statestore.exceptions import LeaseLost, TaskBusy
from django_statestore.services.resume import resume
from tests.durable.conftest import Bench, State

Task = DurableTask[State]


def three_steps(bench: Bench, first: Callable[[State, StepContext], Any], **options: Any) -> Task:
    """Define a task that does ``first``, then ``second`` and ``third``, and start it."""
    task = bench.define(**options)

    @task.step(replay="safe")
    def begin(state: State, ctx: StepContext) -> Any:
        return first(state, ctx)

    @task.step(replay="safe")
    def second(state: State, ctx: StepContext) -> State:
        got = ctx.received
        return state.then(f"second {got and got.payload} turn {ctx.turn}")

    @task.step(replay="safe")
    def third(state: State, ctx: StepContext) -> State:
        got = ctx.received
        return state.then(f"third {got and got.payload} turn {ctx.turn}")

    bench.start(task)
    return task


def fails(state: State, ctx: StepContext) -> Any:
    raise ZeroDivisionError


def fresh(bench: Bench) -> Task:
    return three_steps(bench, lambda state, ctx: state.then("first"))


def later(bench: Bench) -> Task:
    task = three_steps(bench, lambda state, ctx: state.then("first"))
    at = bench.get(task).record.now + timedelta(seconds=600)
    bench.call(task.start, State(), task_id="u", namespace=bench.names, at=at)
    return task


def sleeping(bench: Bench) -> Task:
    task = three_steps(bench, lambda state, ctx: Sleep(state.then("first"), 600))
    bench.run(task)
    return task


def waiting(bench: Bench) -> Task:
    task = three_steps(bench, lambda state, ctx: WaitFor(state.then("first"), "answer"))
    bench.run(task)
    return task


def waiting_with_a_time_out(bench: Bench) -> Task:
    task = three_steps(bench, lambda state, ctx: WaitFor(state.then("first"), "answer", timeout=600))
    bench.run(task)
    return task


def resting_in_a_turn(bench: Bench) -> Task:
    task = three_steps(bench, lambda state, ctx: Repeat(state.then("first"), wait_for="answer", timeout=600))
    bench.run(task)
    return task


def backing_off(bench: Bench) -> Task:
    task = three_steps(bench, fails, backoff=Backoff(first=200))
    with pytest.raises(ZeroDivisionError):
        bench.run(task)
    return task


def parked(bench: Bench) -> Task:
    task = three_steps(bench, fails, max_attempts=3)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            bench.run(task)
        bench.age(600)
    assert bench.run(task).reason == "attempts_exhausted"
    return task


def completed(bench: Bench) -> Task:
    task = three_steps(bench, lambda state, ctx: state.then("first"))
    assert bench.run(task).status == "completed"
    return task


RESTING = [later, sleeping, waiting, waiting_with_a_time_out, resting_in_a_turn, backing_off, parked, completed]
rests = pytest.mark.parametrize("make", RESTING, ids=lambda make: make.__name__)


def of(make: Callable[[Bench], Task]) -> str:
    return "u" if make is later else "t"


def loaded(bench: Bench, task_id: str = "t") -> Checkpoint:
    checkpoint = bench.call(bench.store.durable.load, task_id)
    assert checkpoint is not None
    return checkpoint


# -- the lease --------------------------------------------------------------------------------------------------------


@rests
def test_the_end_of_a_lease_leaves_a_task_as_due_as_it_was(bench: Bench, make: Callable[[Bench], Task]) -> None:
    make(bench)
    before = bench.record(of(make))
    assert not before.due

    def held(lease: object) -> None:
        assert bench.record(of(make)).leased

    bench.call.block(bench.store.durable.exclusive(of(make)), held)
    after = bench.record(of(make))
    assert after.fence > before.fence
    assert replace(after, fence=before.fence, now=before.now) == before


@rests
def test_a_lease_that_lapsed_wakes_nobody_early(bench: Bench, make: Callable[[Bench], Task]) -> None:
    task = make(bench)
    before = bench.record(of(make))
    assert bench.call(bench.store.durable.claim, of(make), 0.001) is not None
    bench.age(1)
    shown = bench.run(task, of(make)).record
    assert (shown.attempts, shown.save_seq, shown.step_index) == (before.attempts, before.save_seq, before.step_index)
    after = bench.record(of(make))
    assert (after.worker if not after.finished else "", after.reason) == ("", before.reason)
    assert (after.waiting_for, after.status) == (before.waiting_for, before.status)
    if not after.finished:
        assert (after.wake_at is None) == (before.wake_at is None)
        assert not after.due


def test_a_task_that_was_due_is_due_again_at_the_end_of_a_lease(bench: Bench) -> None:
    task = fresh(bench)
    bench.call.block(bench.store.durable.exclusive("t"), lambda held: None)
    assert bench.record().due
    assert bench.run(task).status == "completed"


def test_a_task_whose_deadline_passed_under_a_lease_is_cancelled_at_its_end(bench: Bench) -> None:
    task = sleeping(bench)
    bench.call.block(bench.store.durable.exclusive("t", lease=7200), lambda held: bench.age(3601))
    assert bench.record().due
    assert bench.run(task).reason == "deadline_passed"


def test_a_run_while_another_holds_the_task_fails_and_changes_nothing(bench: Bench) -> None:
    task = fresh(bench)
    claim = bench.call(bench.store.durable.claim, "t")
    assert claim is not None
    before = bench.record()
    with pytest.raises(TaskBusy, match="'t'"):
        bench.run(task)
    assert replace(bench.record(), now=before.now) == before
    assert bench.call(bench.store.durable.release, "t", claim.token) is True
    assert bench.run(task).status == "completed"


def test_a_message_for_a_task_that_another_holds_is_left_alone(bench: Bench) -> None:
    fresh(bench)
    claim = bench.store.durable.claim("t")
    before = bench.record()
    resume(bench.alias, bench.names, "t")
    assert replace(bench.record(), now=before.now) == before
    assert claim is not None
    bench.store.durable.release("t", claim.token)
    resume(bench.alias, bench.names, "t")
    assert bench.record().status == "completed"


def test_nobody_gets_the_lease_of_a_task_whose_step_runs(bench: Bench) -> None:
    seen: list[Any] = []

    async def alook(state: State, ctx: StepContext) -> State:
        durable = bench.store.durable
        seen.append(await durable.aclaim("t"))
        with pytest.raises(TaskBusy):
            await durable.asave("t", loaded_before)
        seen.append(await durable.aload("t"))
        return state

    def look(state: State, ctx: StepContext) -> State:
        durable = bench.store.durable
        seen.append(durable.claim("t"))
        with pytest.raises(TaskBusy):
            durable.save("t", loaded_before)
        seen.append(durable.load("t"))
        return state

    task = bench.define()
    task.step(replay="safe")(alook if bench.call.asynchronous else look)
    bench.start(task)
    loaded_before = loaded(bench)
    assert bench.run(task).status == "completed"
    assert seen == [None, replace(loaded_before, status="running", attempt_count=1)]


def test_a_holder_whose_task_the_engine_took_over_saves_nothing(bench: Bench) -> None:
    task = fresh(bench)
    claim = bench.call(bench.store.durable.claim, "t")
    assert claim is not None
    assert claim.checkpoint is not None
    bench.age(61)
    done = bench.run(task)
    assert done.status == "completed"
    with pytest.raises(LeaseLost):
        bench.call(bench.store.durable.commit, "t", claim.token, claim.checkpoint)
    assert bench.call(bench.store.durable.renew, "t", claim.token) is False
    assert bench.call(bench.store.durable.release, "t", claim.token) is False
    assert bench.get(task).record.save_seq == done.record.save_seq


# -- requests meanwhile -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [waiting, waiting_with_a_time_out, resting_in_a_turn], ids=lambda make: make.__name__)
def test_a_signal_that_comes_under_a_lease_is_heard_at_its_end(bench: Bench, make: Callable[[Bench], Task]) -> None:
    task = make(bench)

    def send(held: object) -> None:
        task.signal("t", "answer", "yes", namespace=bench.names)
        with pytest.raises(TaskBusy):
            task.run("t", namespace=bench.names)

    bench.call.block(bench.store.durable.exclusive("t"), send)
    assert bench.record().due
    bench.run(task)
    assert bench.record().save_seq > 1


@pytest.mark.parametrize("make", [fresh, sleeping, waiting, backing_off], ids=lambda make: make.__name__)
def test_a_cancel_that_comes_under_a_lease_is_done_at_its_end(bench: Bench, make: Callable[[Bench], Task]) -> None:
    task = make(bench)

    def cancel(held: object) -> None:
        task.cancel("t", "enough", namespace=bench.names)
        assert bench.record().status != "cancelled"

    bench.call.block(bench.store.durable.exclusive("t"), cancel)
    assert bench.record().due
    ended = bench.run(task)
    assert ended.status == "cancelled"
    assert ended.reason.startswith("enough")


# -- saves ------------------------------------------------------------------------------------------------------------


@rests
def test_a_load_gives_the_checkpoint_that_the_engine_shows(bench: Bench, make: Callable[[Bench], Task]) -> None:
    task = make(bench)
    shown = bench.get(task, of(make)).checkpoint
    found = loaded(bench, of(make))
    assert found.to_json() | {"state": None} == shown.to_json() | {"state": None}
    assert found.state == {"ran": list(bench.get(task, of(make)).state.ran), "n": 0}


@pytest.mark.parametrize(
    "make", [sleeping, waiting, waiting_with_a_time_out, resting_in_a_turn, parked], ids=lambda make: make.__name__
)
def test_a_save_at_the_same_step_keeps_what_the_task_rests_for(bench: Bench, make: Callable[[Bench], Task]) -> None:
    task = make(bench)
    before = bench.record()
    bench.call(bench.store.durable.save, "t", replace(loaded(bench), state={"ran": ["foreign"], "n": 7}))
    after = bench.record()
    assert (after.resume_at, after.waiting_for) == (before.resume_at, before.waiting_for)
    assert (after.wake_at is None) == (before.wake_at is None)
    if after.wake_at is not None and before.wake_at is not None:  # the document counts its deadline in milliseconds
        assert timedelta() <= before.wake_at - after.wake_at < timedelta(milliseconds=1)
    assert (after.reason, after.status, after.turn, after.driven) == (before.reason, before.status, before.turn, True)
    assert after.save_seq == before.save_seq + 1
    shown = bench.run(task)
    assert (shown.state, shown.record.save_seq) == (State(("foreign",), 7), after.save_seq)


def test_a_wait_that_was_saved_under_still_hears_its_signal(bench: Bench) -> None:
    task = waiting(bench)
    bench.call(bench.store.durable.save, "t", loaded(bench))
    bench.call(task.signal, "t", "answer", "yes", namespace=bench.names)
    assert bench.run(task).state.ran == ("first", "second yes turn 1", "third None turn 1")


@pytest.mark.parametrize("make", [waiting, waiting_with_a_time_out, resting_in_a_turn], ids=lambda make: make.__name__)
def test_a_save_at_another_step_ends_the_wait(bench: Bench, make: Callable[[Bench], Task]) -> None:
    task = make(bench)
    bench.call(bench.store.durable.save, "t", replace(loaded(bench), next_step_index=2))
    record = bench.record()
    assert (record.waiting_for, record.wait_spec, record.resume_at, record.due) == ("", "", None, True)
    assert bench.run(task).state.ran == ("first", "third None turn 1")


def test_a_save_at_another_step_cuts_no_sleep_short(bench: Bench) -> None:
    task = sleeping(bench)
    bench.call(bench.store.durable.save, "t", replace(loaded(bench), next_step_index=2))
    assert bench.run(task).status == "ready"
    bench.age(601)
    assert bench.run(task).state.ran == ("first", "third None turn 1")


def test_a_save_as_running_is_an_interrupted_step(bench: Bench) -> None:
    task = waiting(bench)
    entered = replace(loaded(bench), status="running", attempt_count=2)
    bench.call(bench.store.durable.save, "t", entered)
    assert bench.record().due
    done = bench.run(task)
    assert (done.state.ran, done.record.attempts) == (("first", "second None turn 1", "third None turn 1"), 4)


@pytest.mark.parametrize("status", ["completed", "cancelled"])
@pytest.mark.parametrize("make", [fresh, sleeping, waiting, backing_off], ids=lambda make: make.__name__)
def test_a_save_may_end_a_task(bench: Bench, make: Callable[[Bench], Task], status: Any) -> None:
    task = make(bench)
    bench.call(bench.store.durable.save, "t", replace(loaded(bench), status=status, next_step_index=3))
    record = bench.record()
    assert (record.status, record.waiting_for, record.wake_at) == (status, "", None)
    assert record.finished_at is not None
    assert bench.run(task).status == status


@pytest.mark.parametrize(
    ("index", "ran"), [(1, ("second yes turn 1", "third None turn 1")), (2, ("third None turn 1",))]
)
def test_what_a_step_received_stays_with_that_step(bench: Bench, index: int, ran: tuple[str, ...]) -> None:
    task = waiting(bench)
    bench.call(task.signal, "t", "answer", "yes", namespace=bench.names)
    die_awake(bench)
    bench.call(bench.store.durable.save, "t", replace(loaded(bench), status="ready", next_step_index=index))
    assert bench.run(task).state.ran == ("first", *ran)


def die_awake(bench: Bench) -> None:
    """Do what a worker had done that dies in the step that the signal woke, and let its lease lapse."""
    record, tasks = bench.record(), bench.engine
    mail = tasks.task_mail(record.id, "answer").run()
    assert mail is not None
    at, waking = record.position, Waking(record.signal_seq, mail.id)
    assert tasks.task_claim(at, "a worker that died", 60_000, enter=True, calls=0, waking=waking).run()
    bench.age(61)


def test_a_save_between_two_messages_is_what_the_engine_goes_on_from(bench: Bench) -> None:
    task = fresh(bench)
    bench.one_step(task)
    bench.call(bench.store.durable.save, "t", replace(loaded(bench), state={"ran": ["foreign"], "n": 1}))
    done = bench.run(task)
    assert (done.state.ran, done.state.n) == (("foreign", "second None turn 1", "third None turn 1"), 1)
