"""``wake_at`` is the truth: leases, deadlines, cancel, and who holds a task."""

import pytest
from django.db import connections, transaction

from django_statestore import flow
from django_statestore.contracts.position import Position
from django_statestore.contracts.tasks import Failure, Renewal, Save
from django_statestore.durable import Backoff, DurableTask, Repeat, StepContext
from django_statestore.durable.lease import TaskLease
from django_statestore.exceptions import (
    InvalidArgument,
    LeaseLost,
    TaskBusy,
    TaskFinished,
    TaskNotFound,
    TransactionRefused,
)
from tests.durable.conftest import Bench, State, on_databases

from .rows import Asked


def two_steps(bench: Bench) -> DurableTask[State]:
    task = bench.define()

    @task.step(replay="safe")
    def first(state: State, ctx: StepContext) -> State:
        return state.then("first")

    @task.step(replay="safe")
    def second(state: State, ctx: StepContext) -> State:
        return state.then("second")

    return task


def claimed(bench: Bench) -> Position:
    """Claim the task as a worker that is alive and well elsewhere."""
    record = bench.record()
    at = record.position
    grant = bench.engine.task_claim(at, "another worker", 60_000, enter=True, calls=0).run()
    assert grant is not None
    return Position(record.id, grant.fence, record.save_seq)


def a_save(**changes: object) -> Save:
    values: dict[str, object] = {
        "ending": "enter", "state": "{}", "step": "s", "turn": 1, "attempts": 1, "outcome": "done",
        "milliseconds": 1, "worker": "w", "next_index": 1, "next_turn": 1, "more_attempts": 0, "refund": 0,
        "calls": 0, "lease": 60_000, "notify": None,
    }  # fmt: skip
    return Save(**(values | changes))  # type: ignore[arg-type]


def test_a_living_lease_keeps_others_out(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    claimed(bench)
    with pytest.raises(TaskBusy):
        bench.run(task)
    bench.age(59)
    with pytest.raises(TaskBusy):
        bench.run(task)
    bench.age(2)
    assert bench.run(task).status == "completed"


def test_a_worker_that_was_replaced_can_write_nothing(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    stale = claimed(bench)
    bench.age(61)
    claimed(bench)
    before = bench.rows.everything("t")
    failure = Failure("error", 1000, False, "", "", keep_claims=False, notify=None)
    assert bench.engine.task_commit(stale, a_save()).run() is None
    for ending in ("stop", "completed", "failed"):
        assert bench.engine.task_commit(stale, a_save(ending=ending)).run() is None
    assert bench.engine.task_fail(stale, failure).run() is None
    assert bench.engine.task_enter(stale, calls=0).run() is None
    assert bench.engine.task_park(stale, "diverged").run() is False
    renewed = bench.engine.task_renew([Renewal(stale.task, stale.fence, 60_000, 0.9, "late")]).run()
    assert [answer.held for answer in renewed] == [False]
    assert bench.rows.everything("t") == before


def test_a_holder_whose_lease_ran_out_but_whom_nobody_replaced_may_still_commit(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    at = claimed(bench)
    bench.age(61)
    committed = bench.engine.task_commit(at, a_save(state='{"ran":[],"n":0}')).run()
    assert committed is not None
    assert committed.status == "running"


def test_a_renewal_that_arrives_after_the_end_does_not_wake_the_task(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    at = claimed(bench)
    assert bench.engine.task_commit(at, a_save(ending="completed")).run() is not None
    late = Renewal(at.task, at.fence, 60_000, None, None)
    assert [answer.held for answer in bench.engine.task_renew([late]).run()] == [False]
    record = bench.record()
    assert (record.status, record.wake_at) == ("completed", None)


def test_a_failure_record_that_arrives_after_a_commit_changes_nothing(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    at = claimed(bench)
    assert bench.engine.task_commit(at, a_save()).run() is not None
    late = Failure("late", 1000, False, "", "", keep_claims=False, notify=None)
    assert bench.engine.task_fail(at, late).run() is None
    assert bench.record().last_error == ""


def test_every_claim_and_every_release_raises_the_fence(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    fences = [bench.record().fence]
    bench.die(task)
    fences.append(bench.record().fence)
    bench.one_step(task)
    fences.append(bench.record().fence)
    bench.run(task)
    fences.append(bench.record().fence)
    assert fences == sorted(set(fences))
    assert fences[-1] < 2**53


def test_an_ordinary_commit_leaves_a_fresh_lease_where_it_is(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    at = claimed(bench)
    before = bench.record().wake_at
    committed = bench.engine.task_commit(at, a_save()).run()
    assert committed is not None
    assert bench.record().wake_at == before
    bench.age(30)
    lapsing = bench.record().wake_at
    assert bench.engine.task_commit(Position(at.task, at.fence, at.save_seq + 1), a_save()).run() is not None
    moved = bench.record()
    assert moved.wake_at is not None
    assert lapsing is not None
    assert moved.wake_at > lapsing


def test_progress_is_written_with_the_renewal(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    at = claimed(bench)
    other = bench.start(task, "other")
    answers = bench.engine.task_renew(
        [Renewal(at.task, at.fence, 60_000, 0.5, "half"), Renewal(other.record.id, 12345, 60_000, 0.1, "no")]
    ).run()
    assert [answer.held for answer in answers] == [True, False]
    assert bench.get(task).progress == (0.5, "half")
    assert bench.get(task, "other").progress is None


def test_a_task_past_its_deadline_is_cancelled_without_reconciling(bench: Bench) -> None:
    task, asked = bench.define(deadline=100), []

    @task.step(replay="reconcile")
    def pay(state: State, ctx: StepContext) -> State:
        raise AssertionError

    @pay.reconcile
    def pay_found(state: State, ctx: StepContext) -> State:
        asked.append(1)
        return state

    bench.start(task)
    bench.die(task)
    bench.age(100)
    ended = bench.run(task)
    assert (ended.status, ended.reason, asked) == ("cancelled", "deadline_passed (step 'pay' was open)", [])


def test_a_deadline_that_passes_inside_a_step_keeps_its_result(bench: Bench) -> None:
    task = bench.define(deadline=100)

    @task.step(replay="safe")
    def slow(state: State, ctx: StepContext) -> State:
        bench.age(101)
        return state.then("slow")

    @task.step(replay="safe")
    def never(state: State, ctx: StepContext) -> State:
        raise AssertionError

    bench.start(task)
    ended = bench.run(task)
    assert (ended.status, ended.reason, ended.state.ran) == ("cancelled", "deadline_passed", ("slow",))


def test_the_last_step_completes_though_the_deadline_passed_inside_it(bench: Bench) -> None:
    task = bench.define(deadline=100)

    @task.step(replay="safe")
    def slow(state: State, ctx: StepContext) -> State:
        bench.age(101)
        return state.then("slow")

    bench.start(task)
    assert bench.run(task).status == "completed"


def test_cancel_ends_a_task_that_nobody_holds_at_once(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    ended = bench.cancel(task, "changed my mind\0")
    assert (ended.status, ended.reason) == ("cancelled", "changed my mind\\x00")
    with pytest.raises(TaskFinished):
        bench.cancel(task)
    with pytest.raises(TaskNotFound):
        bench.cancel(task, task_id="unknown")
    with pytest.raises(InvalidArgument):
        bench.cancel(task, "")
    assert bench.run(task).status == "cancelled"


def test_cancel_of_a_parked_or_failed_task_names_the_open_step(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    bench.die(task)
    assert bench.cancel(task).reason == "enough (step 'first' was open)"


def test_cancel_of_a_running_step_takes_effect_at_its_save_and_keeps_the_result(bench: Bench) -> None:
    task = bench.define()
    seen: list[bool] = []

    @task.step(replay="safe")
    def first(state: State, ctx: StepContext) -> State:
        handle = flow.run(task._cancel("t", "stop it", namespace=bench.names))
        seen.append(handle.status == "running")
        return state.then("first")

    @task.step(replay="safe")
    def never(state: State, ctx: StepContext) -> State:
        raise AssertionError

    bench.start(task)
    ended = bench.run(task)
    assert (ended.status, ended.reason, ended.state.ran, seen) == ("cancelled", "stop it", ("first",), [True])


def test_cancel_of_a_running_step_that_raises_ends_the_task_with_its_old_state(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def first(state: State, ctx: StepContext) -> State:
        flow.run(task._cancel("t", "stop it", namespace=bench.names))
        raise ValueError("stopped")

    bench.start(task)
    with pytest.raises(ValueError, match="stopped"):
        bench.run(task)
    ended = bench.get(task)
    assert (ended.status, ended.reason) == ("cancelled", "stop it (step 'first' was open)")
    assert ended.state == State()


def test_the_renewal_brings_the_cancel_to_a_running_step(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    at = claimed(bench)
    record = bench.record()
    lease = TaskLease(bench.engine, record, 60_000, 0.0)
    assert (lease.position, lease.cancelled) == (at, False)
    bench.cancel(task)
    assert lease.renew_all([lease]) == [True]
    assert lease.cancelled


def test_cancel_is_recorded_with_who_asked(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    bench.call(task.cancel, "t", "why", namespace=bench.names, sender="ann")
    assert bench.rows.requests("t") == [Asked("cancel", "why", "ann", 1)]


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_cancel_inside_a_transaction_is_asked_when_it_commits(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=bench.alias):
        assert bench.cancel(task).status == "ready"
        raise ZeroDivisionError
    assert bench.get(task).status == "ready"
    with transaction.atomic(using=bench.alias):
        assert bench.cancel(task).status == "ready"
    assert bench.get(task).status == "cancelled"


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_cancel_whose_commit_hook_was_lost_is_applied_by_the_sweep(bench: Bench) -> None:
    from django_statestore.services.sweep import sweep

    task = two_steps(bench)
    bench.start(task)
    connection = connections[bench.alias]
    with transaction.atomic(using=bench.alias):
        bench.cancel(task)
        connection.run_on_commit.clear()
    assert bench.get(task).status == "ready"
    bench.age(5)
    sweep(bench.alias)
    assert (bench.get(task).status, bench.get(task).reason) == ("cancelled", "enough")


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_running_inside_an_open_transaction_is_refused(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    with transaction.atomic(using=bench.alias), pytest.raises(TransactionRefused, match="non_atomic_requests"):
        bench.run(task)
    assert bench.record().attempts == 0


def test_a_worker_that_means_to_stop_saves_without_entering_the_next_step(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def loop(state: State, ctx: StepContext) -> Repeat[State]:
        return Repeat(state.then(f"turn {ctx.turn}"))

    bench.start(task)
    for turn in (1, 2, 3):
        bench.one_step(task)
        record = bench.record()
        assert (record.status, record.attempts, record.worker, record.turn) == ("ready", turn, "", turn + 1)
        assert record.due
    assert record.max_attempts == 6 + 3


def test_a_lease_of_the_contract_cuts_no_backoff_short(bench: Bench) -> None:
    task = bench.define(backoff=Backoff(first=200))

    @task.step(replay="safe")
    def fragile(state: State, ctx: StepContext) -> State:
        if ctx.attempt == 1:
            raise ValueError("first")
        return state.then(f"attempt {ctx.attempt}")

    bench.start(task)
    with pytest.raises(ValueError, match="first"):
        bench.run(task)
    claim = bench.call(bench.store.durable.claim, "t", 60)
    assert claim is not None
    with pytest.raises(TaskBusy):
        bench.run(task)
    assert bench.call(bench.store.durable.release, "t", claim.token)
    assert bench.run(task).attempt == 1, "given back, it waits on"
    assert bench.call(bench.store.durable.claim, "t", 60) is not None
    bench.age(61)
    assert bench.run(task).attempt == 1, "lapsed, it waits on"
    record = bench.record()
    assert record.wake_at == record.resume_at
    assert not record.due
    bench.age(140)
    assert bench.run(task).state.ran == ("attempt 2",)


def test_a_lease_of_the_contract_wakes_no_parked_task(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    record = bench.record()
    assert bench.engine.task_park(Position(record.id, record.fence, 0), "crash_loop").run()
    claim = bench.call(bench.store.durable.claim, "t", 60)
    assert claim is not None
    assert bench.call(bench.store.durable.release, "t", claim.token)
    assert bench.record().wake_at is None
    assert bench.call(bench.store.durable.claim, "t", 60) is not None
    bench.age(61)
    assert bench.run(task).reason == "crash_loop"
    assert bench.record().wake_at is None


def test_one_slice_bounds_a_drive(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def loop(state: State, ctx: StepContext) -> Repeat[State]:
        return Repeat(state.then("turn"))

    bench.start(task)
    record = flow.run(bench.drive(task, seconds=0.05).run())
    assert (record.status, record.reason) == ("ready", "")
    assert 1 <= record.attempts < 1000


def test_a_lost_lease_is_told_to_the_one_who_ran(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def stolen(state: State, ctx: StepContext) -> State:
        bench.age(61)
        claimed(bench)
        return state.then("late")

    bench.start(task)
    with pytest.raises(LeaseLost):
        bench.run(task)
    assert bench.get(task).state == State()
