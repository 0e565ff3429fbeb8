"""What users of other engines ran into: each rule is tried here where no other test tries it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_statestore.contracts.mailbox import Request
from django_statestore.contracts.position import Position
from django_statestore.contracts.tasks import Renewal, Wait
from django_statestore.durable import DurableTask, ModelBudget, NotDone, Sleep, StepContext, WaitFor
from django_statestore.durable.registry import unregister
from django_statestore.durable.requests import grant_request
from django_statestore.exceptions import ModelBudgetExceeded, RevisionMismatch, StepTimeout, StoreUnavailable, TaskBusy
from django_statestore.flow import Call
from django_statestore.models import MailboxItem
from django_statestore.services.resume import resume
from django_statestore.services.sweep import sweep
from django_statestore.signals import task_parked
from tests.durable.conftest import Bench, State, on_databases
from tests.durable.raw import HOUR, Raw


def position(bench: Bench, task_id: str = "t") -> Position:
    record = bench.record(task_id)
    return record.position


def one_step(bench: Bench, before: Callable[[StepContext], object] = bool, **options: Any) -> DurableTask[State]:
    task = bench.define(**options)

    @task.step(replay="safe")
    def work(state: State, ctx: StepContext) -> State:
        before(ctx)
        return state.then("work")

    return task


# -- leases -----------------------------------------------------------------------------------------------------------


def test_the_name_of_a_worker_decides_nothing(bench: Bench) -> None:
    task = one_step(bench)
    bench.start(task)
    grants = []
    for _ in range(2):  # the pod that was restarted has the name of the one that died
        grant = bench.engine.task_claim(position(bench), "pod-1", 60_000, enter=True, calls=0).run()
        assert grant is not None, "the lease is over, so whoever held it is no obstacle"
        grants.append(grant)
        bench.age(61)
    record = bench.record()
    stale, held = (Renewal(record.id, grant.fence, 60_000, None, None) for grant in grants)
    assert [renewed.held for renewed in bench.engine.task_renew([stale]).run()] == [False]
    assert bench.record().due
    assert [renewed.held for renewed in bench.engine.task_renew([held]).run()] == [True]


@pytest.mark.django_db(transaction=True)
def test_a_step_may_run_far_longer_than_its_lease(bench: Bench, settings: Any) -> None:
    settings.STATESTORE = {"HINTS": False, "LEASE": 1}

    def before(ctx: StepContext) -> None:
        time.sleep(1.6)
        assert bench.record().leased
        ctx.check()

    task = one_step(bench, before)
    bench.start(task)
    done = bench.run(task)
    assert (done.status, done.checkpoint.attempt_count) == ("completed", 1)


@pytest.mark.django_db(transaction=True)
@on_databases
def test_a_step_after_a_long_atomic_one_still_has_its_lease(bench: Bench, settings: Any) -> None:
    settings.STATESTORE = {"HINTS": False, "LEASE": 1}
    task = bench.define()

    @task.step(replay="atomic")
    def write(state: State, ctx: StepContext) -> State:
        ctx.store.kv.set("k", 1)  # on SQLite nothing can be renewed from here on
        time.sleep(1.2)
        return state.then("write")

    @task.step(replay="safe")
    def tell(state: State, ctx: StepContext) -> State:
        ctx.check()
        return state.then("tell")

    bench.start(task)
    assert bench.run(task).state.ran == ("write", "tell")


@on_databases
@pytest.mark.parametrize("ahead", [3600, -3600], ids=["ahead", "behind"])
def test_the_clock_of_a_worker_decides_nothing(bench: Bench, ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    task, real = bench.define(deadline=600), time.time

    @task.step(replay="safe")
    def rest(state: State, ctx: StepContext) -> object:
        ctx.check()
        assert 500 < ctx.remaining <= 600
        return Sleep(state.then("rest"), 100)

    @task.step(replay="safe")
    def rise(state: State, ctx: StepContext) -> State:
        with pytest.raises(TaskBusy):
            bench.run(task)
        return state.then("rise")

    bench.start(task)
    monkeypatch.setattr(time, "time", lambda: real() + ahead)
    bench.run(task)
    assert bench.run(task).state.ran == ("rest",)
    bench.age(101)
    assert bench.run(task).state.ran == ("rest", "rise")


# -- interrupted and found not done -----------------------------------------------------------------------------------


def refused_entry(bench: Bench) -> tuple[DurableTask[State], list[int]]:
    """Return a task whose only attempt was interrupted before its effect, and what its step does."""
    task, did = bench.define(max_attempts=1), list[int]()

    @task.step(replay="reconcile")
    def pay(state: State, ctx: StepContext) -> State:
        did.append(ctx.attempt)
        return state.then("paid")

    @pay.reconcile
    def pay_found(state: State, ctx: StepContext) -> object:
        return NotDone

    bench.start(task)
    bench.die(task)
    return task, did


def once_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, request: Request) -> list[str]:
    """Have a request come after the entry of a step was refused, and before ``name`` is called next."""
    engine, answered = bench.engine, list[str]()
    enter, then = engine.task_enter, getattr(engine, name)

    def entering(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(engine, name, asking)
        return enter(*args, **options)

    def asking(*args: Any, **options: Any) -> Any:
        def do() -> Any:
            if not answered:
                answered.append(engine.task_request(bench.store.durable.entry("t"), request).run().answered)
            return then(*args, **options).run()

        return Call(do)

    monkeypatch.setattr(engine, "task_enter", entering)
    return answered


@pytest.mark.parametrize("next", ["task_read", "task_park"])
def test_a_step_without_attempts_left_is_not_run_though_a_cancel_keeps_it_from_being_parked(
    bench: Bench, next: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, did = refused_entry(bench)
    answered = once_refused(bench, monkeypatch, next, Request("cancel", "enough"))
    ended = bench.run(task)
    assert (ended.status, ended.reason, did, answered) == ("cancelled", "enough", [], ["applied"])


def test_a_grant_that_comes_as_a_step_is_to_be_parked_lets_it_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, did = refused_entry(bench)
    answered = once_refused(bench, monkeypatch, "task_read", grant_request(5, 0, None, "ann"))
    assert (bench.run(task).state.ran, did, answered) == (("paid",), [2], ["applied"])


def test_what_another_worker_took_up_as_soon_as_it_was_parked_is_left_to_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, did = refused_entry(bench)
    park = bench.engine.task_park

    def parking(*args: Any, **options: Any) -> Any:
        def do() -> bool:
            parked: bool = park(*args, **options).run()
            assert bench.engine.task_request(bench.store.durable.entry("t"), grant_request(5, 0, None, "ann")).run()
            assert bench.engine.task_claim(position(bench), "another", 60_000, enter=True, calls=0).run() is not None
            return parked

        return Call(do)

    monkeypatch.setattr(bench.engine, "task_park", parking)
    left = bench.run(task)
    assert (left.reason, did, bench.record().worker) == ("attempts_exhausted", [], "another")


def test_listeners_hear_of_a_task_that_is_parked_after_it_was_reconciled(bench: Bench) -> None:
    task, _ = refused_entry(bench)
    heard: list[str] = []

    def listen(sender: Any, **told: Any) -> None:
        heard.append(told["reason"])

    task_parked.connect(listen)
    try:
        bench.run(task)
    finally:
        task_parked.disconnect(listen)
    assert heard == ["attempts_exhausted"]


# -- limits -----------------------------------------------------------------------------------------------------------


def test_of_many_threads_with_one_model_call_left_one_makes_it(bench: Bench) -> None:
    task, made = bench.define(model_budget=ModelBudget(9, per_attempt=3)), list[bool]()

    @task.step(replay="safe", model_calls=3)
    def think(state: State, ctx: StepContext) -> State:
        ctx.spend_model_call()
        ctx.spend_model_call()
        together = threading.Barrier(10)

        def spend(_: int) -> bool:
            together.wait()
            try:
                ctx.spend_model_call()
            except ModelBudgetExceeded:
                return False
            return True

        with ThreadPoolExecutor(10) as pool:
            made.extend(pool.map(spend, range(10)))
        return state

    bench.start(task)
    assert bench.run(task).status == "completed"
    assert (made.count(True), bench.record().reserved_calls) == (1, 3)


def test_a_budget_is_for_the_life_of_a_task_whoever_dies_meanwhile(bench: Bench) -> None:
    task, made = bench.define(model_budget=ModelBudget(5, per_attempt=2), max_attempts=20), list[int]()

    @task.step(replay="safe", model_calls=2)
    def think(state: State, ctx: StepContext) -> State:
        made.append(ctx.attempt)
        ctx.spend_model_call()
        raise ConnectionError("the model does not answer")

    bench.start(task)
    bench.die(task, calls=2)
    with pytest.raises(ConnectionError):
        bench.run(task)
    bench.age(400)
    assert bench.run(task).reason == "budget_exhausted"
    assert made == [2], "a call that failed was made too, so a third attempt fits no more"
    bench.start(task, "other")
    assert bench.record("other").reserved_calls == 0, "another task has a budget of its own"


def test_a_task_that_is_overdue_costs_no_attempt_and_no_model_call(bench: Bench) -> None:
    task, made = bench.define(deadline=10, model_budget=ModelBudget(5, per_attempt=2)), list[int]()

    @task.step(replay="safe", model_calls=2)
    def think(state: State, ctx: StepContext) -> State:
        made.append(1)
        return state

    bench.start(task)
    bench.age(60)
    resume(bench.alias, bench.names, "t")
    record = bench.record()
    assert (record.status, record.reason) == ("cancelled", "deadline_passed")
    assert (record.attempts, record.reserved_calls, made) == (0, 0, [])


def test_a_sleeper_wakes_though_nobody_was_there_when_its_time_came(bench: Bench) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def rest(state: State, ctx: StepContext) -> object:
        return Sleep(state.then("rest"), 10)

    @task.step(replay="safe")
    def rise(state: State, ctx: StepContext) -> State:
        return state.then("rise")

    bench.start(task)
    bench.run(task)
    bench.age(60)
    assert [due.key for due in bench.engine.tasks_notify([task.fingerprint], 300_000, 9).run()] == ["t"]
    resume(bench.alias, bench.names, "t")
    assert bench.get(task).state.ran == ("rest", "rise")


def test_a_deadline_that_is_granted_to_a_running_step_holds_for_it(bench: Bench) -> None:
    def before(ctx: StepContext) -> None:
        if ctx.attempt == 1:
            bench.get(task).grant(deadline=3600)
            ctx._lease.deadline -= 60  # as if a minute had passed for this worker
            ctx.check()

    task = one_step(bench, before, deadline=60)
    bench.start(task)
    with pytest.raises(StepTimeout, match="put off"):
        bench.run(task)
    bench.age(2)
    assert bench.run(task).status == "completed"


def test_a_grant_opens_a_new_round_and_leaves_what_was_spent_on_the_record(bench: Bench) -> None:
    def before(ctx: StepContext) -> None:
        if ctx.attempt == 1:
            raise ValueError("first")

    task = one_step(bench, before, max_attempts=1)
    bench.start(task)
    with pytest.raises(ValueError, match="first"):
        bench.run(task)
    bench.age(400)
    parked = bench.run(task)
    assert parked.reason == "attempts_exhausted"
    bench.call(parked.grant, attempts=1, sender="ann")
    done = bench.run(task)
    assert (done.status, done.record.attempts, done.record.max_attempts) == ("completed", 2, 2)


# -- saving and ending ------------------------------------------------------------------------------------------------


def test_what_a_step_returned_is_not_dropped_where_the_store_is_away_before_its_save(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, look, away = bench.define(), bench.engine.task_look, [True]

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return WaitFor(state.then(f"asked {ctx.attempt}"), "answer")

    @task.step(replay="safe")
    def tell(state: State, ctx: StepContext) -> State:
        return state

    def looking(*args: Any) -> Any:
        def do() -> Any:
            if away:
                away.clear()
                raise StoreUnavailable("the database restarts")
            return look(*args).run()

        return Call(do)

    monkeypatch.setattr(bench.engine, "task_look", looking)
    bench.start(task)
    waiting = bench.run(task)
    assert (waiting.status, waiting.state.ran, away) == ("ready", ("asked 1",), [])


@pytest.mark.parametrize("by", ["message", "sweep", "run"])
def test_a_cancel_that_no_worker_lived_to_see_comes_true_though_its_code_is_gone(bench: Bench, by: str) -> None:
    task = one_step(bench, id="cancelled.t")
    bench.start(task)
    bench.engine.task_claim(position(bench), "a worker that dies", 60_000, enter=True, calls=0).run()
    bench.cancel(task)
    bench.age(61)
    unregister(task)
    if by == "message":
        resume(bench.alias, bench.names, "t")
    elif by == "sweep":
        sweep(bench.alias)
        bench.age(3601)
        sweep(bench.alias)
    else:
        with pytest.raises(RevisionMismatch):
            bench.run(one_step(bench, id="cancelled.t", revision="2"))
    record = bench.record()
    assert (record.status, record.reason) == ("cancelled", "enough (step 'work' was open)")


# -- the sweep --------------------------------------------------------------------------------------------------------


@on_databases
def test_a_request_that_cannot_be_read_stops_no_sweep(bench: Bench) -> None:
    task = one_step(bench)
    for task_id in ("bad", "good"):
        record = bench.start(task, task_id).record
        payload = json.dumps({"attempts": 1, "model_calls": 0, "deadline": None})
        if task_id == "bad":  # as a newer release may write it
            payload = json.dumps({"attempts": 1, "something": "new"})
        MailboxItem.objects.using(bench.alias).create(
            task_id=record.id, kind="grant", payload=payload, sent_at=timezone.now() - timedelta(minutes=1)
        )
    before = bench.record("good").max_attempts
    sweep(bench.alias)
    assert bench.record("good").max_attempts == before + 1
    assert bench.rows.jobs()["sweep"], "the sweep came to its end"


@pytest.fixture
def raw(bench: Bench) -> Raw:
    return Raw(bench)


def test_a_lease_that_came_back_to_life_and_lapses_again_is_swept_at_once(raw: Raw) -> None:
    record = raw.start()
    grant = raw.claim()
    assert grant is not None

    def notified() -> list[str]:
        return [due.key for due in raw.do(raw.tasks.tasks_notify([record.fingerprint], 300_000, 9))]

    raw.bench.age(61)
    assert notified() == ["t"], "that message will find a living worker"
    assert raw.do(raw.tasks.task_renew([Renewal(record.id, grant.fence, 60_000, None, None)]))[0].held
    raw.bench.age(61)
    assert notified() == ["t"]


def test_code_that_lets_a_task_wait_on_ends_what_other_code_has_noted_of_it(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(None, "go", seen=-1))
    raw.do(raw.tasks.tasks_diverge(["another"], HOUR))
    record = raw.record()
    assert record.mismatch_since is not None
    assert raw.do(raw.tasks.task_wait_again(raw.at(), record.signal_seq))
    assert raw.record().mismatch_since is None


def test_a_task_reserves_no_more_calls_an_attempt_than_it_was_started_with(bench: Bench) -> None:
    """Who raises ``per_attempt`` without a new revision raises it for new tasks alone."""
    left: list[int] = []

    def make(per_attempt: int) -> DurableTask[State]:
        task = bench.define("budget.t", model_budget=ModelBudget(9, per_attempt=per_attempt))

        @task.step(replay="safe", model_calls=per_attempt)
        def first(state: State, ctx: StepContext) -> State:
            left.append(ctx.calls_left)
            return state

        @task.step(replay="safe", model_calls=per_attempt)
        def second(state: State, ctx: StepContext) -> State:
            left.append(ctx.calls_left)
            ctx.spend_model_call()
            return state

        return task

    old = make(2)
    bench.start(old)
    unregister(old)
    done = bench.run(make(5))
    assert (done.status, left, done.record.reserved_calls) == ("completed", [2, 2], 1)


@on_databases
def test_requests_that_cannot_be_read_hide_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_statestore.services.sweep.BATCH", 2)
    task = bench.define()

    @task.step(replay="safe")
    def work(state: State, ctx: StepContext) -> State:
        return state

    for number in range(4):
        bench.start(task, f"t{number}")
        item = {"task_id": bench.record(f"t{number}").id, "sent_at": timezone.now() - timedelta(hours=1)}
        payload = json.dumps({"attempts": 3} if number == 3 else {"from a newer release": 1})
        MailboxItem.objects.using(bench.alias).create(kind="grant", payload=payload, **item)
    sweep(bench.alias)
    assert bench.record("t3").max_attempts == task.max_attempts + 3
