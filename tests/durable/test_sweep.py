"""The sweep's memory is its own column: no task starves, and no broker is flooded."""

from typing import Any

import pytest
from django.db import connections, transaction

from django_statestore.backends.database import DatabaseBackend
from django_statestore.contracts.mailbox import Request
from django_statestore.contracts.position import Position
from django_statestore.durable import Backoff, DurableTask, StepContext, WaitFor
from django_statestore.services.purge import purge
from django_statestore.services.resume import resume
from django_statestore.services.sweep import sweep
from django_statestore.services.work import drive_due
from tests.durable.conftest import Bench, State, on_databases
from tests.durable.hearing import published


def failing(bench: Bench, **options: Any) -> DurableTask[State]:
    task = bench.define(**options)

    @task.step(replay="safe")
    def fragile(state: State, ctx: StepContext) -> State:
        if ctx.attempt == 1:
            raise ValueError("first")
        return state.then("done")

    return task


def notified(bench: Bench, task: DurableTask[State], limit: int = 100) -> list[str]:
    """Return the ids that one round of the sweep would send messages for, in this test's namespace."""
    found = bench.engine.tasks_notify([task.fingerprint], 300_000, limit).run()
    return sorted(due.key for due in found)


def test_a_due_task_is_notified_once_per_grace(bench: Bench) -> None:
    task = failing(bench)
    bench.start(task, "a")
    bench.start(task, "b")
    assert notified(bench, task) == ["a", "b"]
    assert notified(bench, task) == []
    bench.age(299)
    assert notified(bench, task) == []
    bench.age(2)
    assert notified(bench, task) == ["a", "b"]


def test_a_batch_that_is_messaged_does_not_hide_the_rest(bench: Bench) -> None:
    task = failing(bench)
    for number in range(5):
        bench.start(task, f"t{number}")
    rounds = [notified(bench, task, limit=2) for _ in range(4)]
    assert [len(found) for found in rounds] == [2, 2, 1, 0]
    assert sorted(id for found in rounds for id in found) == [f"t{number}" for number in range(5)]


def test_every_move_of_wake_at_clears_the_memory(bench: Bench) -> None:
    task = failing(bench)
    bench.start(task)
    assert notified(bench, task) == ["t"]
    with pytest.raises(ValueError, match="first"):
        bench.run(task)
    assert notified(bench, task) == [], "in back-off it is not due"
    bench.age(2)
    assert notified(bench, task) == ["t"], "due again it is notified at once, though the last message is young"


def test_a_message_cuts_no_backoff_short(bench: Bench) -> None:
    task = failing(bench, backoff=Backoff(first=100))
    bench.start(task)
    for _ in range(3):
        resume(bench.alias, bench.names, "t")
    record = bench.record()
    assert (record.attempts, record.status) == (1, "running")
    assert record.wake_at is not None
    assert 95 < (record.wake_at - record.now).total_seconds() <= 100


def test_a_message_that_was_sent_is_not_refused_for_having_been_sent(bench: Bench) -> None:
    task = failing(bench)
    bench.start(task)
    assert notified(bench, task) == ["t"]
    resume(bench.alias, bench.names, "t")
    assert bench.record().attempts == 1


def test_unsweepable_rows_do_not_stop_the_others(bench: Bench) -> None:
    task = failing(bench)
    for id in ("a", "b", "c"):
        bench.start(task, id)
    bench.rows.change("a", "fingerprint", "unknown")
    bench.rows.change("b", "revision", "\x7f")
    assert notified(bench, task, limit=1) == ["b"]
    assert notified(bench, task, limit=1) == ["c"]
    assert sweep(bench.alias).failed == 0


def test_a_finished_parked_or_leased_task_is_left_alone(bench: Bench) -> None:
    task = failing(bench)
    for id in ("ended", "parked", "leased"):
        bench.start(task, id)
    bench.cancel(task, task_id="ended")
    parked, leased = bench.record("parked"), bench.record("leased")
    assert bench.engine.task_park(Position(parked.id, parked.fence, 0), "crash_loop").run()
    at = Position(leased.id, leased.fence, 0)
    assert bench.engine.task_claim(at, "w", 60_000, enter=True, calls=0).run()
    assert notified(bench, task) == []
    bench.age(61)
    assert notified(bench, task) == ["leased"]


def test_a_worker_without_celery_drives_what_is_due(bench: Bench) -> None:
    task = failing(bench)
    bench.start(task, "a")
    bench.start(task, "b")
    assert drive_due(bench.alias, bool) == 2
    assert drive_due(bench.alias, bool) == 0
    bench.age(2)
    assert drive_due(bench.alias, bool) == 2
    assert [bench.get(task, id).status for id in "ab"] == ["completed", "completed"]


def test_finished_tasks_are_purged_by_their_end_and_keep_their_ids_until_then(bench: Bench) -> None:
    task = failing(bench)
    bench.start(task)
    bench.cancel(task)
    bench.age(14 * 86400 - 10)
    purge(bench.alias)
    assert bench.get(task).status == "cancelled"
    bench.age(20)
    purge(bench.alias)
    assert bench.start(task).status == "ready"


def test_a_definitions_own_retention_decides(bench: Bench) -> None:
    short, long = failing(bench, retention=60), failing(bench, retention=90 * 86400)
    bench.start(short, "short")
    bench.start(long, "long")
    for task, id in ((short, "short"), (long, "long")):
        bench.cancel(task, task_id=id)
    bench.age(61)
    purge(bench.alias)
    assert bench.rows.ids() == ["long"]
    bench.age(20 * 86400)
    purge(bench.alias)
    assert bench.rows.ids() == ["long"]


def test_open_tasks_are_never_purged(bench: Bench) -> None:
    task = failing(bench, deadline=10)
    bench.start(task)
    bench.age(365 * 86400)
    purge(bench.alias)
    assert bench.get(task).status == "ready"


def test_sweep_and_purge_remember_their_last_start_and_success(bench: Bench) -> None:
    sweep(bench.alias)
    purge(bench.alias)
    assert bench.rows.jobs() == {"purge": True, "sweep": True}


@pytest.mark.django_db(transaction=True)
@on_databases
def test_a_request_that_its_own_commit_did_not_apply_is_applied_by_the_sweep(bench: Bench, settings: Any) -> None:
    task = bench.define()

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return WaitFor(state, "answer")

    @task.step(replay="safe")
    def tell(state: State, ctx: StepContext) -> State:
        return state

    settings.STATESTORE = {"HINTS": True}
    bench.start(task)
    bench.run(task)
    with transaction.atomic(using=bench.alias):  # and whoever did this died between COMMIT and what follows it
        asked = bench.engine.task_request(bench.store.durable.entry("t"), Request("signal", "answer")).run()
    assert asked.answered == "stored"
    with published() as messages:
        assert sweep(bench.alias).applied == 0, "its own commit may be about to do so"
        assert not bench.record().due
        bench.age(2)
        swept = sweep(bench.alias)
        assert (swept.applied, swept.notified, len(messages)) == (1, 0, 1)
    assert bench.record().due
    assert bench.run(task).status == "completed"


PLANS = ["", "enable_hashjoin, enable_mergejoin, enable_hashagg, enable_sort, enable_material", "enable_seqscan"]


@on_databases
@pytest.mark.parametrize("switched_off", PLANS, ids=["free", "nested-loop", "indexes"])
def test_a_batch_is_never_larger_than_its_limit_whatever_the_plan(bench: Bench, switched_off: str) -> None:
    task = failing(bench)
    for number in range(12):
        bench.start(task, f"t{number:02}")
    connection = connections[bench.alias]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for name in filter(None, switched_off.split(", ")):
                cursor.execute(f"set local {name} = off")
    assert notified(bench, task, limit=5) == [f"t{number:02}" for number in range(5)]
    assert len(notified(bench, task, limit=5)) == 5
    for number in range(12):
        bench.store.kv.set(f"k{number}", number, ttl=10)
        bench.store.list.append(f"l{number}", number, ttl=10)
        bench.store.spool.write(f"c{number}", "text")
    bench.store.spool.clear()
    bench.age(7200)
    backend = bench.store.backend
    assert isinstance(backend, DatabaseBackend)
    assert [backend.entries_purge("kv", 5).run() for _ in range(4)] == [5, 5, 2, 0]
    assert [backend.list_purge(5).run() for _ in range(4)] == [5, 5, 2, 0]
    assert [backend.spool_purge_dropped(3_600_000, 5).run() for _ in range(4)] == [5, 5, 2, 0]
