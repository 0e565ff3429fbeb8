"""How a statement reaches a database, and what is said when it does not."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DatabaseError, IntegrityError, connections, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from django_statestore import Store, codec, stores
from django_statestore.backends.database import DatabaseBackend
from django_statestore.backends.database import connection as connection_module
from django_statestore.exceptions import OutcomeUnknown, StoreMisconfigured, StoreUnavailable, TransactionConflict
from django_statestore.testing import age
from tests.aliases import another_alias
from tests.calling import Call
from tests.processes import Processes

from .spools import at_once

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture
def postgres() -> Store:
    if "postgres" not in stores:
        pytest.skip("there is no PostgreSQL")
    return stores["postgres"].namespace("connection")


def on(alias: str, store: Store, **options: Any) -> Store:
    """Return a store in the same namespace by another alias."""
    return DatabaseBackend(database=alias, **options).store().at(store.names)


READS: dict[str, Callable[[Store, Call], Any]] = {
    "kv.get": lambda store, call: call(store.kv.get, "k", "missing"),
    "kv.size": lambda store, call: call(store.kv.size),
    "kv.scan": lambda store, call: [item.key for item in call(store.kv.scan).items],
    "lock.size": lambda store, call: call(store.lock.size),
    "dedup.scan": lambda store, call: len(call(store.dedup.scan).items),
}
WRITES: dict[str, Callable[[Store, Call], Any]] = {
    "kv.set": lambda store, call: call(store.kv.set, "k", 1),
    "kv.add": lambda store, call: call(store.kv.add, "new", 1),
    "kv.consume": lambda store, call: call(store.kv.consume, "k"),
    "kv.delete": lambda store, call: call(store.kv.delete, "k"),
    "kv.touch": lambda store, call: call(store.kv.touch, "k", 1),
    "kv.clear": lambda store, call: call(store.kv.clear),
    "dedup.seen": lambda store, call: call(store.dedup.seen, "e", 60),
    "dedup.confirm": lambda store, call: call(store.dedup.confirm, "e", "token"),
    "dedup.forget": lambda store, call: call(store.dedup.forget, "e", "token"),
    "lock.release": lambda store, call: call(store.lock.release, "k", "token"),
    "lock.force_release": lambda store, call: call(store.lock.force_release, "k"),
    "lock.clear": lambda store, call: call(store.lock.clear),
}
REPEATABLE: dict[str, Callable[[Store, Call], Any]] = {
    "lock.acquire": lambda store, call: call(store.lock.acquire, "fresh") is not None,
    "lock.extend": lambda store, call: call(store.lock.extend, "fresh", "token", 60),
    "dedup.claim": lambda store, call: call(store.dedup.claim, "fresh", 60).state,
}
EVERY = READS | WRITES | REPEATABLE


# -- two ways, one result ---------------------------------------------------------------------------------------------

WAYS = ["plain", "wrapped", "logged", "unprepared"]
TEXT = "%s %(k)s %% :k ? ' \" \\ \0 € 😀"


@contextmanager
def way_to(store: Store, way: str) -> Iterator[Store]:
    """Send the statements of the store by the driver's own cursor, or through Django's for one reason or another."""
    connection = connections[store.alias]
    if way == "wrapped":
        with connection.execute_wrapper(lambda execute, *arguments: execute(*arguments)):
            yield store
    elif way == "logged":
        with CaptureQueriesContext(connection):
            yield store
    else:
        yield on(store.alias, store, prepare=False) if way == "unprepared" else store


def story(store: Store, call: Call) -> list[Any]:
    """Do everything once and return all that was answered."""
    lock = call(store.lock.acquire, "k")
    assert lock is not None
    claim = call(store.dedup.claim, "claimed", 60)
    assert claim.token is not None
    told: list[Any] = [
        call(store.kv.set, "% :k", TEXT, ttl=60),
        call(store.kv.get, "% :k"),
        call(store.kv.add, "% :k", 1),
        call(store.kv.add, "k", None),
        call(store.kv.touch, "k", None),
        call(store.kv.touch, "k", 5),
        [(item.key, item.size) for item in call(store.kv.scan).items],
        [item.key for item in call(store.kv.scan, prefix="%").items],
        call(store.kv.size),
        call(store.lock.acquire, "k"),
        call(store.lock.extend, "k", lock.token, 60),
        call(store.dedup.seen, "e", 60),
        call(store.dedup.seen, "e", 60),
        call(store.dedup.claim, "claimed", 60).state,
        call(claim.confirm),
    ]
    age(store, 6)
    told += [
        call(store.kv.get, "k", "gone"),
        call(store.kv.consume, "% :k"),
        call(store.kv.delete, "% :k"),
        call(lock.release),
        call(store.lock.force_release, "k"),
        call(store.dedup.clear),
        call(store.dedup.size),
    ]
    return told


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_the_database_gives_the_same_results(store: Store, call: Call, way: str) -> None:
    with way_to(store, way) as through:
        told = story(through, call)
    assert told == [
        None, TEXT, False, True, True, True, [("% :k", len(codec.dumps(TEXT))), ("k", 4)], ["% :k"], 2,
        None, True, False, True, "pending", True, "gone", TEXT, False, True, False, None, 0,
    ]  # fmt: skip


def test_nothing_is_hidden_from_execute_wrappers_and_query_logging(store: Store, call: Call) -> None:
    seen: list[str] = []

    def wrapper(execute: Any, sql: str, *arguments: Any) -> Any:
        seen.append(sql)
        return execute(sql, *arguments)

    with connections[store.alias].execute_wrapper(wrapper):
        call(store.kv.set, "k", 1)
    with CaptureQueriesContext(connections[store.alias]) as captured:
        call(store.kv.get, "k")
    assert [sql.split()[:3] for sql in seen] == [["insert", "into", "statestore_kv"]]
    assert [query["sql"].split()[0] for query in captured.captured_queries] == ["select"]


def test_a_wrapper_that_refuses_is_obeyed(store: Store, call: Call) -> None:
    class Forbidden(Exception):
        pass

    def refuse(*arguments: Any) -> Any:
        raise Forbidden

    with connections[store.alias].execute_wrapper(refuse), pytest.raises(Forbidden):
        call(store.kv.get, "k")


@pytest.mark.parametrize("way", WAYS)
def test_a_broken_block_is_told_alike_in_every_way(store: Store, call: Call, way: str) -> None:
    with transaction.atomic(using=store.alias):
        transaction.set_rollback(True, using=store.alias)
        with way_to(store, way) as through, pytest.raises(TransactionManagementError):
            call(through.kv.get, "k")


def test_blocking_calls_are_refused_on_the_event_loop(store: Store) -> None:
    async def main() -> None:
        for operate in EVERY.values():
            with pytest.raises(SynchronousOnlyOperation):
                operate(store, Call(asynchronous=False))

    asyncio.run(main())


def test_a_store_serves_many_threads(store: Store) -> None:
    def work() -> None:
        name = threading.current_thread().name
        for number in range(20):
            store.kv.set(name, number)
            assert store.kv.get(name) == number

    at_once(*[work] * 4)
    assert store.kv.size() == 4


def test_a_database_of_another_kind_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = DatabaseBackend(database="default")
    monkeypatch.setattr(connections["default"], "vendor", "oracle")
    with pytest.raises(StoreMisconfigured, match="'default' is oracle; supported are sqlite and postgresql"):
        backend.store().kv.get("k")


# -- prepared statements ----------------------------------------------------------------------------------------------


def prepared(alias: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute("select count(*) from pg_prepared_statements where statement like '%%statestore%%'")
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize(
    ("prepare", "pooled", "expected"),
    [(None, False, 1), (True, False, 1), (False, False, 0), (None, True, 0), (True, True, 1)],
)
def test_our_statements_are_prepared_unless_told_otherwise(
    postgres: Store, call: Call, prepare: bool | None, pooled: bool, expected: int
) -> None:
    with another_alias("postgres", DISABLE_SERVER_SIDE_CURSORS=pooled) as name:
        other = on(name, postgres, prepare=prepare)
        for _ in range(3):
            assert call(other.kv.get, "k") is None
        assert prepared(name) == expected


def test_other_people_s_statements_are_not_prepared(postgres: Store) -> None:
    postgres.kv.get("k")
    with connections["postgres"].cursor() as cursor:
        for _ in range(20):
            cursor.execute("select 'statestore'")
        cursor.execute("select statement from pg_prepared_statements")
        assert {row[0].split()[-1] for row in cursor.fetchall()} != {"'statestore'"}
    assert prepared("postgres") == 1


def test_a_prepared_statement_survives_a_migration(postgres: Store, call: Call) -> None:
    call(postgres.kv.set, "k", 1)
    call(postgres.kv.get, "k")
    with connections["postgres"].cursor() as cursor:
        cursor.execute("alter table statestore_kv add column later text")
        try:
            call(postgres.kv.set, "k", 2)
            assert call(postgres.kv.get, "k") == 2
            assert call(postgres.kv.consume, "k") == 2
        finally:
            cursor.execute("alter table statestore_kv drop column later")


# -- a server that cannot be reached ----------------------------------------------------------------------------------


@pytest.fixture
def unreachable(alias: str, tmp_path: Path) -> Iterator[Store]:
    """Return a store whose database is not there."""
    vendor = connections[alias].vendor
    away = {"NAME": str(tmp_path / "no" / "such.sqlite3")} if vendor == "sqlite" else {"HOST": str(tmp_path / "none")}
    with another_alias(alias, **away) as name:
        yield DatabaseBackend(database=name).store()


def test_an_outage_is_an_error_and_never_a_miss(unreachable: Store, call: Call) -> None:
    for name, operate in EVERY.items():
        with pytest.raises(StoreUnavailable, match="is not available: OperationalError"):
            pytest.fail(f"{name} returned {operate(unreachable, call)!r}")
    with pytest.raises(StoreUnavailable), unreachable.lock.hold("k"):
        pytest.fail("the body ran")


def test_the_store_works_again_when_the_server_is_back(unreachable: Store, store: Store, call: Call) -> None:
    alias = unreachable.backend.database.alias  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable):
        call(unreachable.kv.get, "k")
    for setting in ("NAME", "HOST"):
        connections[alias].settings_dict[setting] = connections[store.alias].settings_dict[setting]
    assert call(unreachable.kv.get, "k") is None


# -- a connection that breaks -----------------------------------------------------------------------------------------


def kill(alias: str) -> None:
    """Have the server end the connection of this thread, as a restart or a pooler does."""
    pid = connections[alias].connection.info.backend_pid

    def terminate() -> None:
        with connections[alias].cursor() as cursor:
            cursor.execute("select pg_terminate_backend(%s, 5000)", [pid])
            assert cursor.fetchone() == (True,)

    at_once(terminate)


@pytest.fixture
def _unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the end of a connection be heard of only after something was sent, as over a network."""
    monkeypatch.setattr(connection_module, "_hung_up", lambda raw: raw.closed)


@pytest.mark.parametrize("way", ["plain", "wrapped"])
def test_a_connection_that_the_server_has_closed_is_replaced_before_anything_is_sent(postgres: Store, way: str) -> None:
    call = Call(asynchronous=False)
    postgres.kv.set("k", 1)
    with way_to(postgres, way) as through:
        for operate in EVERY.values():
            kill("postgres")
            operate(through, call)
        kill("postgres")
        through.queue.enqueue("q", 1)  # several statements, in a transaction of their own
    assert postgres.queue.depth("q") == 1


@pytest.mark.usefixtures("_unheard")
@pytest.mark.parametrize("way", ["plain", "wrapped"])
def test_a_read_goes_on_over_a_new_connection(postgres: Store, way: str) -> None:
    call = Call(asynchronous=False)
    postgres.kv.set("k", 1)
    for name, operate in READS.items():
        expected = operate(postgres, call)
        with way_to(postgres, way) as through:
            operate(through, call)
            kill("postgres")
            assert operate(through, call) == expected, name


@pytest.mark.usefixtures("_unheard")
@pytest.mark.parametrize("way", ["plain", "wrapped"])
def test_a_write_whose_answer_was_lost_has_an_unknown_outcome(postgres: Store, way: str) -> None:
    call = Call(asynchronous=False)
    for name, operate in WRITES.items():
        postgres.kv.set("k", 1)
        with way_to(postgres, way) as through:
            kill("postgres")
            with pytest.raises(OutcomeUnknown, match="may or may not have taken effect"):
                pytest.fail(f"{name} returned {operate(through, call)!r}")
            operate(through, call)  # the next call has a new connection


@pytest.mark.usefixtures("_unheard")
@pytest.mark.parametrize("way", ["plain", "wrapped"])
def test_a_write_that_names_its_token_is_just_sent_again(postgres: Store, way: str) -> None:
    call = Call(asynchronous=False)
    for name, operate in REPEATABLE.items():
        postgres.lock.clear()
        expected = operate(postgres, call)
        postgres.lock.clear()
        postgres.dedup.clear()
        with way_to(postgres, way) as through:
            kill("postgres")
            assert operate(through, call) == expected, name


def test_a_repeat_after_a_lost_answer_recognises_its_own_lock_and_claim(postgres: Store, call: Call) -> None:
    """The first sending took effect."""
    losses: list[str] = []

    def lose_the_answer(execute: Any, sql: str, *arguments: Any) -> Any:
        result = execute(sql, *arguments)
        if sql.strip().startswith("insert") and len(losses) % 2 == 0:
            losses.append(sql)
            kill("postgres")
            with connections["postgres"].wrap_database_errors:
                connections["postgres"].connection.execute("select 1")
        elif sql.strip().startswith("insert"):
            losses.append("repeat")
        return result

    with ExitStack() as stack:
        stack.enter_context(connections["postgres"].execute_wrapper(lose_the_answer))
        lock = call(postgres.lock.acquire, "k")
        claim = call(postgres.dedup.claim, "e", 60)
    assert len(losses) == 4
    assert lock is not None
    assert claim.state == "new"
    assert call(postgres.lock.acquire, "k") is None
    assert call(postgres.dedup.claim, "e", 60).state == "pending"
    assert call(lock.release) is True
    assert call(claim.confirm) is True


@contextmanager
def server_gone(alias: str) -> Iterator[None]:
    """Break the connection, and let no new one be made."""
    kill(alias)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connections[alias].settings_dict, "HOST", "/nowhere")
        yield


@pytest.mark.usefixtures("_unheard")
def test_when_the_server_does_not_come_back_a_read_is_unavailable_and_a_sent_write_unknown(postgres: Store) -> None:
    call = Call(asynchronous=False)
    for name, operate in EVERY.items():
        postgres.kv.set("k", 1)
        with server_gone("postgres"):
            expected = StoreUnavailable if name in READS else OutcomeUnknown
            with pytest.raises(expected):
                pytest.fail(f"{name} returned {operate(postgres, call)!r}")
            with pytest.raises(StoreUnavailable):  # known to be gone: nothing was sent
                pytest.fail(f"{name} returned {operate(postgres, call)!r}")


@pytest.mark.parametrize("way", ["plain", "wrapped"])
def test_a_connection_that_breaks_in_a_transaction_ends_all_of_it(postgres: Store, way: str) -> None:
    call = Call(asynchronous=False)
    for name, operate in {**READS, "kv.set": WRITES["kv.set"], "dedup.seen": WRITES["dedup.seen"]}.items():
        with pytest.raises(StoreUnavailable) as caught, way_to(postgres, way) as through:  # noqa: SIM117
            with transaction.atomic(using="postgres"):
                through.kv.set("k", "in the transaction")
                kill("postgres")
                pytest.fail(f"{name} returned {operate(through, call)!r}")
        assert not isinstance(caught.value, OutcomeUnknown)
        assert postgres.kv.get("k") is None, name


def test_a_broken_transaction_is_not_continued_on_a_new_connection(postgres: Store, call: Call) -> None:
    with pytest.raises(StoreUnavailable), transaction.atomic(using="postgres"):
        kill("postgres")
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                call(postgres.kv.set, "k", 1)
        call(postgres.kv.set, "k", 1)
    assert postgres.kv.get("k") is None


@pytest.mark.parametrize("operate", [READS["kv.get"], WRITES["dedup.seen"]], ids=["read", "write"])
def test_without_autocommit_a_broken_connection_is_told_before_a_new_one_is_made(
    postgres: Store, call: Call, operate: Callable[[Store, Call], Any]
) -> None:
    with another_alias("postgres", AUTOCOMMIT=False) as manual:
        other = on(manual, postgres)
        call(other.kv.set, "k", 1)
        kill(manual)
        with pytest.raises(StoreUnavailable):
            operate(other, call)
        call(other.kv.set, "k3", 3)
        transaction.commit(using=manual)
    assert [postgres.kv.get(key) for key in ("k", "k3")] == [None, 3]


def test_a_connection_that_is_known_to_be_dead_is_replaced_before_anything_is_sent(postgres: Store, call: Call) -> None:
    postgres.kv.get("k")
    connections["postgres"].connection.close()  # as a failed statement of somebody else's leaves it
    call(postgres.kv.set, "k", 1)
    connections["postgres"].connection.close()
    call(postgres.queue.enqueue, "q", 1)  # several statements, in a transaction of their own
    assert (call(postgres.kv.get, "k"), call(postgres.queue.depth, "q")) == (1, 1)


def test_health_checks_are_heeded(postgres: Store, call: Call) -> None:
    """Django checks a connection once a request, before it is used; a write then goes through."""
    with another_alias("postgres", CONN_HEALTH_CHECKS=True, CONN_MAX_AGE=None) as name:
        other = on(name, postgres)
        call(other.kv.set, "k", 1)
        kill(name)
        connections[name].close_if_unusable_or_obsolete()  # what the end of a request does
        call(other.kv.set, "k", 2)
        assert call(other.kv.get, "k") == 2


def write_on_both_sides_of_a_fork(alias: str) -> tuple[bool, int, int]:
    """Return whether the fork left its parent's connection alone, and what it and the parent have written."""
    store = stores[alias].namespace("fork")
    store.kv.set("before", 1)
    open_before = connections[alias].connection
    pid = os.fork()
    if not pid:
        store.kv.set("fork", store.kv.get("before"))
        os._exit(connections[alias].connection is open_before)
    store.kv.set("parent", 1)
    shared = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert connections[alias].connection is open_before
    return not shared, store.kv.get("fork"), store.kv.get("parent")


def test_a_fork_makes_a_connection_of_its_own(processes: Processes, alias: str) -> None:
    assert processes.start(write_on_both_sides_of_a_fork, alias).result() == (True, 1, 1)


# -- a database that is busy ------------------------------------------------------------------------------------------


@contextmanager
def in_the_way(alias: str, store: Store) -> Iterator[threading.Event]:
    """Let another thread keep the database, or the row of "k", locked until the event is set."""
    locked, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic(using=alias):
            on(alias, store).kv.set("k", "theirs")
            locked.set()
            assert let_go.wait(20)

    thread = threading.Thread(target=lambda: at_once(hold))
    thread.start()
    assert locked.wait(20)
    try:
        yield let_go
    finally:
        let_go.set()
        thread.join()


def after(seconds: float, event: threading.Event) -> None:
    timer = threading.Timer(seconds, event.set)
    timer.daemon = True
    timer.start()


def test_a_file_that_stays_locked_beyond_the_busy_timeout_is_waited_for(call: Call) -> None:
    store = stores["default"].namespace("busy")
    with another_alias("default", OPTIONS={"timeout": 0.01}) as impatient, in_the_way("default", store) as let_go:
        after(0.2, let_go)
        call(on(impatient, store).kv.set, "k", "ours")
    assert store.kv.get("k") == "ours"


# Django lets go of a connection whose first PRAGMA failed without closing it.
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
def test_a_locked_file_is_waited_for_also_on_connecting(tmp_path: Path, call: Call) -> None:
    """The PRAGMA that asks for the journal mode must read the file."""
    store = stores["default"].namespace("busy")
    file = tmp_path / "locked.sqlite3"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("create table statestore_kv (id blob primary key, value text, expires_at integer)")
    other.execute("begin exclusive")
    timer = threading.Timer(0.2, other.close)  # which ends its transaction
    with another_alias("default", NAME=str(file), OPTIONS={"timeout": 0.01}) as impatient:
        timer.start()
        assert call(on(impatient, store).kv.get, "k") is None
    timer.join()
    gc.collect()


def test_who_has_waited_long_enough_is_told(monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    store = stores["default"].namespace("busy")
    monkeypatch.setattr(connection_module, "PATIENCE", 0.05)
    with another_alias("default", OPTIONS={"timeout": 0.01}) as impatient, in_the_way("default", store):
        other = on(impatient, store)
        with pytest.raises(StoreUnavailable, match="not available"):
            call(other.kv.set, "k", "ours")
        assert call(other.kv.get, "k") is None  # a reader is in nobody's way


def test_a_locked_file_inside_the_caller_s_transaction_is_a_conflict(call: Call) -> None:
    store = stores["default"].namespace("busy")
    options = {"timeout": 0.01, "transaction_mode": "DEFERRED"}
    with another_alias("default", OPTIONS=options) as impatient, in_the_way("default", store):
        other = on(impatient, store)
        with pytest.raises(TransactionConflict, match="retry all of it"), transaction.atomic(using=impatient):
            call(other.kv.set, "k", "ours")


@pytest.mark.parametrize(
    ("limit", "inside", "expected"),
    [
        ("lock_timeout", True, TransactionConflict),
        ("statement_timeout", True, StoreUnavailable),
        ("statement_timeout", False, StoreUnavailable),
    ],
)
def test_a_timeout_of_the_server_s_has_a_name(
    postgres: Store, call: Call, limit: str, inside: bool, expected: type[Exception]
) -> None:
    with another_alias("postgres", OPTIONS={"options": f"-c {limit}=30ms"}) as name, in_the_way("postgres", postgres):
        block = transaction.atomic(using=name) if inside else nullcontext()
        with pytest.raises(expected), block:
            call(on(name, postgres).kv.set, "k", "ours")


def test_a_lock_timeout_outside_a_transaction_is_waited_out(postgres: Store, call: Call) -> None:
    options = {"options": "-c lock_timeout=30ms"}
    with another_alias("postgres", OPTIONS=options) as name, in_the_way("postgres", postgres) as let_go:
        after(0.2, let_go)
        call(on(name, postgres).kv.set, "k", "ours")
    assert postgres.kv.get("k") == "ours"


def test_a_full_disk_has_a_name_too(tmp_path: Path, call: Call) -> None:
    store = stores["default"].namespace("full")
    file = tmp_path / "full.sqlite3"
    with closing(sqlite3.connect(file)) as other:
        other.execute("create table statestore_kv (id blob primary key, namespace, key, value, expires_at)")
    with another_alias("default", NAME=str(file), OPTIONS={"init_command": "PRAGMA max_page_count = 5"}) as full:
        with pytest.raises(StoreUnavailable):
            call(on(full, store).kv.set, "k", "x" * 100_000)
        assert call(on(full, store).kv.get, "k") is None
        call(on(full, store).kv.set, "k", "x")


# -- errors that are not the store's ----------------------------------------------------------------------------------


def test_an_error_of_the_caller_s_or_of_ours_passes_through(store: Store, call: Call) -> None:
    """A missing table is no outage: the project has not been migrated."""
    backend: Any = store.backend
    with pytest.raises(DatabaseError, match="nowhere"):
        backend.database.attempt(lambda: backend.rows("select 1 from nowhere", {}), repeatable=True)
    with pytest.raises(IntegrityError):
        backend.database.attempt(
            lambda: backend.rows(
                "insert into statestore_kv (id, namespace, key) values (%(id)s, '', '')", {"id": b"x"}
            ),
            repeatable=False,
        )
    assert call(store.kv.get, "k") is None


def test_an_outage_does_not_show_what_was_to_be_written(unreachable: Store, call: Call) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        call(unreachable.kv.set, "k", "a secret")
    assert "secret" not in f"{caught.value}{caught.value.__cause__}"


def test_connections_of_the_event_loop_s_thread_are_its_own(store: Store) -> None:
    async def main() -> tuple[int, int]:
        try:
            return await sync_to_async(lambda: id(connections[store.alias]))(), id(connections[store.alias])
        finally:
            await sync_to_async(connections.close_all)()

    store.kv.get("k")
    there, here = asyncio.run(main())
    assert there != here
