"""What the package gives to the tests of a project: tasks run until idle, and workers that die where a test says."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import DatabaseError, connections, transaction
from django.test import TestCase, override_settings

from django_statestore import Store, store
from django_statestore.durable import Backoff, DurableTask, NotDone, Repeat, StepContext, WaitFor
from django_statestore.durable.points import watchers
from django_statestore.durable.registry import unregister
from django_statestore.exceptions import TransactionRefused
from django_statestore.testing import Crashed, NotIdle, age, arun_until_idle, crash_at, run_until_idle
from tests.aliases import DATABASES
from tests.durable.conftest import Bench, State, on_databases
from tests.durable.hearing import published


def idle(bench: Bench, where: Store | str | None = None, **options: Any) -> int:
    """Run until idle in the form of the test."""
    run = async_to_sync(arun_until_idle) if bench.call.asynchronous else run_until_idle
    return run(bench.store if where is None else where, **options)


def two_steps(bench: Bench, **options: Any) -> DurableTask[State]:
    task = bench.define(**options)

    @task.step(replay="safe")
    def one(state: State, ctx: StepContext) -> State:
        return state.then(f"one {ctx.attempt}")

    @task.step(replay="safe")
    def two(state: State, ctx: StepContext) -> State:
        return state.then(f"two {ctx.attempt}")

    return task


def starting(bench: Bench) -> tuple[DurableTask[State], DurableTask[State]]:
    """Return two definitions; a task of the first starts one of the second."""
    parent, child = bench.define(), two_steps(bench)

    @parent.step(replay="safe")
    def begin(state: State, ctx: StepContext) -> State:
        child.start(State(), task_id="child", namespace=bench.names)
        return state

    return parent, child


def endless(bench: Bench) -> DurableTask[State]:
    task = bench.define("test.endless")

    @task.step(replay="safe")
    def again(state: State, ctx: StepContext) -> object:
        return Repeat(state)

    return task


def test_it_drives_every_due_task_and_counts_the_drives(bench: Bench) -> None:
    task = two_steps(bench)
    for number in range(3):
        bench.start(task, f"t{number}")
    assert idle(bench) == 3
    assert {bench.get(task, f"t{number}").status for number in range(3)} == {"completed"}
    assert idle(bench) == 0


def test_it_drives_what_its_tasks_start(bench: Bench) -> None:
    parent, child = starting(bench)
    bench.start(parent, "parent")
    assert idle(bench) == 2
    assert bench.get(child, "child").status == "completed"


def test_it_drives_nested_namespaces_and_no_others(bench: Bench) -> None:
    task = two_steps(bench)
    task.start(State(), task_id="below", namespace=(*bench.names, "tenant"))
    task.start(State(), task_id="beside", namespace=(*bench.names[:-1], bench.names[-1] + "-other"))
    assert idle(bench) == 1
    assert task.get("below", namespace=(*bench.names, "tenant")).status == "completed"
    assert idle(bench, bench.alias) == 1


def test_a_store_is_given_by_its_alias_or_not_at_all(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task, "a")
    assert idle(bench, bench.alias) == 1
    bench.start(task, "b")
    run = async_to_sync(arun_until_idle) if bench.call.asynchronous else run_until_idle
    assert run() == 1
    assert bench.get(task, "b").status == "completed"


def test_what_a_step_raises_is_recorded_and_its_back_off_is_not_cut_short(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    task = bench.define(backoff=Backoff(first=10))

    @task.step(replay="safe")
    def fragile(state: State, ctx: StepContext) -> State:
        if ctx.attempt == 1:
            raise ValueError("first")
        return state.then("done")

    bench.start(task)
    assert idle(bench) == 1
    assert bench.get(task).last_error.startswith("ValueError: first")
    assert "a step of a task failed: ValueError" in caplog.text
    assert idle(bench) == 0
    bench.age(11)
    assert idle(bench) == 1
    assert bench.get(task).state.ran == ("done",)


def test_a_task_that_waits_is_left_until_its_signal_comes(bench: Bench) -> None:
    task = asking(bench)
    bench.start(task)
    assert idle(bench) == 1
    assert idle(bench) == 0
    bench.call(task.signal, "t", "answer", 7, namespace=bench.names)
    assert idle(bench) == 1
    assert bench.get(task).state == State(("asked", "answered"), 7)


def asking(bench: Bench) -> DurableTask[State]:
    task = bench.define()

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return WaitFor(state.then("asked"), "answer")

    @task.step(replay="safe")
    def tell(state: State, ctx: StepContext) -> State:
        assert ctx.received is not None
        return state.then("answered", ctx.received.payload)

    return task


@on_databases
def test_requests_that_wait_for_a_commit_are_applied(bench: Bench) -> None:
    task = asking(bench)
    for id in ("answered", "cancelled"):
        bench.start(task, id)
    assert idle(bench) == 2
    with transaction.atomic(using=bench.alias):
        task.signal("answered", "answer", 7, namespace=bench.names)
        task.cancel("cancelled", "enough", namespace=bench.names)
    assert idle(bench) == 1
    assert bench.get(task, "answered").state.n == 7
    assert bench.get(task, "cancelled").reason == "enough"


@pytest.mark.parametrize("hints", [True, False], ids=["hints", "no-hints"])
def test_it_needs_no_message_and_sends_none(bench: Bench, hints: bool, settings: Any) -> None:
    parent, _ = starting(bench)
    slow = bench.define()

    @slow.step(replay="safe")
    def turns(state: State, ctx: StepContext) -> object:
        return Repeat(state) if ctx.turn < 3 else state

    settings.STATESTORE = {"HINTS": hints, "RUN_SLICE": 0.001}
    bench.start(parent, "parent")
    bench.start(slow, "slow")
    with published() as messages:
        assert idle(bench) >= 3
    assert messages == []
    assert {bench.record(id).status for id in ("parent", "child", "slow")} == {"completed"}


def test_a_task_that_never_rests_is_named(bench: Bench, settings: Any) -> None:
    settings.STATESTORE = {"HINTS": False, "RUN_SLICE": 0.001}
    bench.start(endless(bench), "circling")
    with pytest.raises(
        NotIdle, match=r"still due after 5 drives: test\.endless 'circling'; .* repeat for ever"
    ) as info:
        idle(bench, drives=5)
    assert isinstance(info.value, AssertionError)


@on_databases
def test_tasks_that_cannot_be_driven_are_named_with_the_error(bench: Bench) -> None:
    def refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().lower().startswith(("update", "with")):
            raise DatabaseError("the table is gone")
        return execute(sql, params, many, context)

    bench.start(two_steps(bench), "stuck")
    named = pytest.raises(NotIdle, match=r"'stuck'; driving it changes nothing \(DatabaseError\)")
    with connections[bench.alias].execute_wrapper(refuse), named as raised:
        idle(bench)
    assert isinstance(raised.value.__cause__, DatabaseError)


@on_databases
def test_an_open_block_of_the_test_is_refused_by_its_own_error(bench: Bench) -> None:
    bench.start(two_steps(bench))
    with pytest.raises(TransactionRefused), transaction.atomic(using=bench.alias):
        run_until_idle(bench.store)


# -- a worker that dies -----------------------------------------------------------------------------------------------

CRASHES: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "entered": ("one", 1, ("one 2", "two 1")),
    "returned": ("one", 1, ("one 2", "two 1")),
    "saved": ("two", 2, ("one 1", "two 2")),
}


@pytest.mark.parametrize("point", CRASHES)
def test_a_worker_dies_at_a_point_and_another_goes_on_when_its_lease_is_over(bench: Bench, point: Any) -> None:
    step, attempts, ran = CRASHES[point]
    task = two_steps(bench)
    bench.start(task)
    with crash_at("one", point):
        assert idle(bench) == 1
    left = bench.get(task)
    assert (left.status, left.step, left.checkpoint.attempt_count) == ("running", step, attempts)
    assert left.record.leased
    assert idle(bench) == 0, "a lease that lives is respected"
    bench.age(61)
    assert idle(bench) == 1
    assert bench.get(task).state.ran == ran


def test_a_call_that_was_made_and_not_kept_is_made_again(bench: Bench) -> None:
    task, calls = bench.define(), list[str]()

    @task.step(replay="safe")
    def work(state: State, ctx: StepContext) -> State:
        ctx.call("first", calls.append, "first")
        ctx.call("second", calls.append, "second")
        return state

    bench.start(task)
    with crash_at("work", "called", times=2):
        idle(bench)
        bench.age(61)
        idle(bench)
    bench.age(61)
    idle(bench)
    assert bench.get(task).status == "completed"
    assert calls == ["first", "first", "first", "second"]


def test_a_reconcile_step_is_asked_after_the_crash(bench: Bench) -> None:
    task, paid = bench.define(), list[str]()

    @task.step(replay="reconcile")
    def pay(state: State, ctx: StepContext) -> State:
        paid.append("paid")
        return state.then("paid")

    @pay.reconcile
    def pay_found(state: State, ctx: StepContext) -> object:
        return state.then("found") if paid else NotDone

    bench.start(task)
    with crash_at("pay", "returned"):
        idle(bench)
    bench.age(61)
    idle(bench)
    assert (bench.get(task).state.ran, paid) == (("found",), ["paid"])


@on_databases
def test_an_atomic_step_is_rolled_back_by_the_crash(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="atomic")
    def book(state: State, ctx: StepContext) -> State:
        ctx.store.kv.set("booked", ctx.attempt)
        return state

    bench.start(task)
    with crash_at("book", "returned"):
        idle(bench)
    assert bench.store.kv.get("booked") is None
    bench.age(61)
    idle(bench)
    assert (bench.get(task).status, bench.store.kv.get("booked")) == ("completed", 2)


def test_the_other_tasks_go_on(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task, "a")
    bench.start(task, "b")
    with crash_at("one", "entered"):
        assert idle(bench) == 2
    assert sorted(bench.get(task, id).status for id in "ab") == ["completed", "running"]


def test_a_run_ends_with_the_block_and_writes_nothing(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    with crash_at("one", "returned"):
        bench.run(task)
        pytest.fail("the worker is dead")
    record = bench.record()
    assert (record.status, record.save_seq, record.last_error, record.leased) == ("running", 0, "", True)
    assert watchers == []


def test_a_point_that_is_never_reached_fails_the_test(bench: Bench) -> None:
    bench.start(two_steps(bench))
    with (
        pytest.raises(AssertionError, match="'returned' of step 'three' was reached 0 times, not 1"),
        crash_at("three", "returned"),
    ):
        idle(bench)
    assert watchers == []


def test_each_block_swallows_its_own_crash_only(bench: Bench) -> None:
    task = two_steps(bench)
    bench.start(task)
    with crash_at("one", "returned"), crash_at("two", "returned"):
        bench.run(task)
    assert bench.get(task).step == "one"
    with pytest.raises(Crashed, match="another"), crash_at("one", "returned"):
        raise Crashed("another")


@pytest.mark.parametrize(("point", "times"), [("nowhere", 1), ("saved", 0)])
def test_a_point_or_number_that_cannot_be_is_refused(point: Any, times: int) -> None:
    refused = pytest.raises(ValueError, match=r"there is no point 'nowhere'|times must be")
    with refused, crash_at("one", point, times=times):
        pass


# -- inside a test of Django's, and of pytest-django ------------------------------------------------------------------


class RunsInATestCase(TestCase):
    """The helpers inside the transaction that Django wraps around a test."""

    task: DurableTask[State]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.addClassCleanup(unregister, cls.task)

    @classmethod
    def setUpTestData(cls) -> None:
        cls.task = asking(Bench("default", store, None))  # type: ignore[arg-type]
        cls.task.start(State(), task_id="early")

    def test_a_task_of_the_class_is_driven_in_each_test(self) -> None:
        assert run_until_idle() == 1
        assert self.task.get("early").state.ran == ("asked",)

    def test_start_signal_grant_and_cancel_write_at_once(self) -> None:
        self.task.start(State(), task_id="late")
        assert run_until_idle() == 2
        self.task.signal("early", "answer", 7)
        self.task.get("late").grant(attempts=3)
        assert self.task.cancel("late", "enough").status == "cancelled"
        assert run_until_idle() == 1
        assert self.task.get("early").state.n == 7

    @override_settings(STATESTORE={"HINTS": True})
    def test_messages_that_are_held_back_until_a_commit_are_not_missed(self) -> None:
        self.task.start(State(), task_id="late")
        assert run_until_idle() == 2

    def test_a_worker_dies_and_another_goes_on(self) -> None:
        with crash_at("ask", "returned"):
            run_until_idle()
        age(store, 61)
        assert run_until_idle() == 1
        assert self.task.get("early").attempt == 0
        assert self.task.get("early").checkpoint.attempt_count == 2

    async def test_from_a_coroutine(self) -> None:
        assert await arun_until_idle() == 1
        await self.task.asignal("early", "answer", 7)
        assert await arun_until_idle() == 1
        assert (await self.task.aget("early")).status == "completed"


@pytest.mark.django_db
def test_with_the_mark_of_pytest_django(statestore_db: Store) -> None:
    task = asking(Bench("default", statestore_db, None))  # type: ignore[arg-type]
    try:
        task.start(State(), namespace=statestore_db.names)
        assert run_until_idle(statestore_db) == 1
    finally:
        unregister(task)


def test_with_a_store_in_memory_and_no_database(statestore: Store) -> None:
    tasks = [asking(Bench(alias, statestore, None)) for alias in DATABASES]  # type: ignore[arg-type]
    try:
        tasks[0].start(State(), task_id="t")
        assert run_until_idle() == 1
        assert tasks[0].get("t").state.ran == ("asked",)
    finally:
        for task in tasks:
            unregister(task)
