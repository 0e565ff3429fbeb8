"""A step whose own writes and whose save are one transaction: both, or neither."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, IntegrityError, connections, transaction

from django_statestore.contracts.journal import Item
from django_statestore.contracts.tasks import Committed, Save, Wait
from django_statestore.exceptions import (
    NotSupported,
    OutcomeUnknown,
    StoreUnavailable,
    TransactionConflict,
    TransactionRefused,
)
from django_statestore.models import Task
from tests.crash.proxy import Proxy, through_proxy
from tests.durable.conftest import on_databases
from tests.durable.raw import SAVE, Raw, raw

__all__ = ["raw"]

committed_only = pytest.mark.django_db(databases="__all__", transaction=True)


def atomic(raw: Raw, work: Callable[[], Any], **changes: Any) -> Committed | None:
    """Claim the task and do ``work`` and a save as one."""
    assert raw.claim() is not None
    return at_once(raw, work, **changes)


def at_once(raw: Raw, work: Callable[[], Any], **changes: Any) -> Committed | None:
    save = replace(SAVE, **changes)

    def step() -> Save:
        work()
        return save

    return raw.do(raw.tasks.task_atomic(raw.at(), step))


def write(raw: Raw) -> None:
    raw.bench.store.kv.set("k", "written")


def written(raw: Raw) -> bool:
    return bool(raw.bench.store.kv.get("k") == "written")


def untouched(raw: Raw) -> bool:
    record = raw.record()
    return not written(raw) and (record.save_seq, record.status, record.worker) == (0, "running", "worker")


@pytest.mark.parametrize("alias", ["memory"], indirect=True)
def test_a_store_that_joins_no_transaction_says_so(raw: Raw) -> None:
    raw.start()
    with pytest.raises(NotSupported):
        atomic(raw, lambda: None)


def come_true_together(raw: Raw) -> None:
    raw.start()
    committed = atomic(raw, lambda: write(raw), items=(Item("log", "1"),), ending="enter")
    assert committed is not None
    assert (committed.status, committed.attempts) == ("running", 2)
    record = raw.record()
    assert (record.save_seq, record.state, record.step_index) == (1, '"saved"', 1)
    assert written(raw)
    assert raw.do(raw.tasks.task_items(record.id, "log")) == ["1"]


@on_databases
@committed_only
def test_what_the_step_wrote_and_its_save_come_true_together(raw: Raw) -> None:
    come_true_together(raw)


@on_databases
def test_so_they_do_directly_inside_the_block_of_a_test_case(raw: Raw) -> None:
    come_true_together(raw)


@on_databases
def test_a_step_that_raises_leaves_nothing(raw: Raw) -> None:
    raw.start()

    def work() -> None:
        write(raw)
        raise LookupError("not found")

    with pytest.raises(LookupError, match="not found"):
        atomic(raw, work)
    assert untouched(raw)


@on_databases
def test_a_step_that_leaves_by_a_base_exception_leaves_nothing(raw: Raw) -> None:
    raw.start()

    def work() -> None:
        write(raw)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic(raw, work)
    assert untouched(raw)


@on_databases
def test_an_error_of_the_database_in_the_step_is_the_steps_own(raw: Raw) -> None:
    raw.start()
    record = raw.record()
    with pytest.raises(IntegrityError):
        atomic(raw, lambda: Task.objects.using(raw.bench.alias).filter(id=record.id).update(claims=None))
    assert untouched(raw)


@on_databases
def test_a_stale_worker_writes_nothing_at_all(raw: Raw) -> None:
    raw.start()
    raw.claim()
    stale = raw.at()
    raw.bench.age(61)
    raw.claim()

    def work() -> Save:
        write(raw)
        return SAVE

    assert raw.do(raw.tasks.task_atomic(stale, work)) is None
    assert untouched(raw)


@on_databases
@committed_only
def test_a_callback_that_raises_after_the_commit_undoes_nothing(raw: Raw, caplog: pytest.LogCaptureFixture) -> None:
    raw.start()

    def fail() -> None:
        raise LookupError("secret")

    def work() -> None:
        write(raw)
        transaction.on_commit(fail, using=raw.bench.alias)

    with caplog.at_level(logging.ERROR):
        committed = atomic(raw, work)
    assert committed is not None
    assert written(raw)
    assert raw.record().save_seq == 1
    assert "LookupError" in caplog.text
    assert "secret" not in caplog.text


@on_databases
@committed_only
def test_it_is_refused_inside_an_open_transaction(raw: Raw) -> None:
    raw.start()
    raw.claim()
    with transaction.atomic(using=raw.bench.alias), pytest.raises(TransactionRefused):
        at_once(raw, lambda: write(raw))
    assert untouched(raw)


@on_databases
@committed_only
def test_its_callbacks_run_after_its_commit_only(raw: Raw) -> None:
    raw.start()
    ran = list[bool]()

    def work() -> None:
        transaction.on_commit(lambda: ran.append(connections[raw.bench.alias].in_atomic_block), using=raw.bench.alias)
        assert ran == []

    atomic(raw, work)
    assert ran == [False]


@on_databases
def test_an_atomic_step_may_end_in_a_wait(raw: Raw) -> None:
    raw.start()
    committed = atomic(raw, lambda: write(raw), ending="wait", wait=Wait(None, "go"))
    assert committed is not None
    assert (raw.record().waiting_for, raw.record().status) == ("go", "ready")
    assert raw.signal().woken


@on_databases
def test_a_step_that_swallowed_an_error_which_broke_its_transaction_is_not_saved(raw: Raw) -> None:
    raw.start()
    record = raw.record()

    def work() -> None:
        try:
            with transaction.atomic(using=raw.bench.alias, savepoint=False):
                write(raw)
                Task.objects.using(raw.bench.alias).filter(id=record.id).update(claims=None)
        except DatabaseError:
            pass

    with pytest.raises(transaction.TransactionManagementError):
        atomic(raw, work)
    assert untouched(raw)


@on_databases
def test_only_a_database_that_isolates_more_than_usual_says_so(raw: Raw) -> None:
    assert raw.do(raw.tasks.task_isolated()) is False


# -- PostgreSQL -------------------------------------------------------------------------------------------------------

only_postgres = [
    pytest.mark.skipif("postgres" not in settings.STATESTORES, reason="there is no PostgreSQL"),
    pytest.mark.parametrize("alias", ["postgres"], indirect=True),
    committed_only,
]


def on_postgres(test: Any) -> Any:
    for mark in only_postgres:
        test = mark(test)
    return test


@pytest.fixture
def proxy(alias: str) -> Iterator[Proxy]:
    with tempfile.TemporaryDirectory() as folder, through_proxy(alias, Path(folder)) as between:  # a short path
        yield between


def losing(raw: Raw, proxy: Proxy, spared: int) -> Callable[[], None]:
    """Return work after which an answer is lost: of the save, or of the COMMIT behind it."""

    def work() -> None:
        write(raw)
        proxy.lose, proxy.spared = "answer", spared

    return work


@on_postgres
def test_a_lost_answer_to_the_save_means_that_nothing_was_written(raw: Raw, proxy: Proxy) -> None:
    raw.start()
    with pytest.raises(StoreUnavailable):
        atomic(raw, losing(raw, proxy, 0))
    assert untouched(raw)


@on_postgres
def test_a_lost_answer_to_the_commit_leaves_the_outcome_unknown(raw: Raw, proxy: Proxy) -> None:
    raw.start()
    with pytest.raises(OutcomeUnknown):
        atomic(raw, losing(raw, proxy, 1))
    assert written(raw)
    assert raw.record().save_seq == 1


@on_postgres
def test_a_serialization_failure_is_a_conflict_and_the_work_is_done_once(raw: Raw) -> None:
    raw.start()
    alias, runs = raw.bench.alias, list[int]()

    def work() -> None:
        runs.append(1)
        with connections[alias].cursor() as cursor:
            cursor.execute("set transaction isolation level repeatable read")
            cursor.execute("select 1 from statestore_task limit 1")
        other = connections.create_connection(alias)
        try:
            with other.cursor() as cursor:
                cursor.execute("update statestore_task set wake_at = wake_at where id = %s", [task])
        finally:
            other.close()

    task = raw.record().id
    with pytest.raises(TransactionConflict):
        atomic(raw, work)
    assert runs == [1]
    assert untouched(raw)


@on_postgres
def test_isolation_above_read_committed_is_told_by_the_options_and_by_the_server(raw: Raw) -> None:
    connection = connections[raw.bench.alias]
    with connection.cursor() as cursor:
        cursor.execute("set default_transaction_isolation = 'serializable'")
    try:
        assert raw.do(raw.tasks.task_isolated()) is True
    finally:
        connection.close()
    from django.db.backends.postgresql.psycopg_any import IsolationLevel

    options = connection.settings_dict["OPTIONS"]
    connection.settings_dict["OPTIONS"] = {**options, "isolation_level": IsolationLevel.REPEATABLE_READ}
    try:
        assert raw.do(raw.tasks.task_isolated()) is True
    finally:
        connection.settings_dict["OPTIONS"] = options
        connection.close()
