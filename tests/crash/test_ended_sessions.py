"""PostgreSQL ends a worker's session, as an administrator or a restart would: the worker goes on over a new one."""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.test import override_settings

from django_statestore import stores
from django_statestore.backends.database import connection as connection_module
from django_statestore.durable import StepContext
from django_statestore.models import Task
from django_statestore.testing import age
from tests.crash.journey import START
from tests.crash.scripted import SCRIPT_END, SCRIPTED, Script

ALIAS = "postgres"

pytestmark = [
    pytest.mark.skipif(ALIAS not in settings.STATESTORES, reason="there is no PostgreSQL"),
    pytest.mark.django_db(databases="__all__", transaction=True),
]


@pytest.fixture(autouse=True)
def _unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the end of a session be heard of only after something was sent, as over a network."""
    monkeypatch.setattr(connection_module, "_hung_up", lambda raw: raw.closed)


def session() -> int:
    """Return the server's process of this thread's connection."""
    pid: int = connections[ALIAS].connection.info.backend_pid
    return pid


@contextmanager
def another_session() -> Iterator[Any]:
    """Yield a cursor of a session of its own."""
    other = connections.create_connection(ALIAS)
    try:
        with other.cursor() as cursor:
            yield cursor
    finally:
        other.close()


def end_session(pid: int) -> None:
    with another_session() as cursor:
        cursor.execute("select pg_terminate_backend(%s, 5000)", [pid])


def end_other_sessions(pid: int) -> None:
    with another_session() as cursor:
        others = "pid not in (%s, pg_backend_pid()) and datname = current_database()"
        cursor.execute(f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where {others}", [pid])


def test_ended_in_every_step() -> None:
    """The commit is the first to learn it: nothing of it was done, and it is sent again."""
    entered = []

    def enter(ctx: StepContext) -> None:
        entered.append(ctx.step)
        end_session(session())

    handle = SCRIPTED[ALIAS].start(START, task_id="t").run(app=Script(on=dict.fromkeys(SCRIPT_END.done, enter)))
    assert (handle.status, handle.state, handle.record.save_seq) == ("completed", SCRIPT_END, 3)
    assert entered == SCRIPT_END.done
    assert handle.record.attempts == 3


def test_ended_while_the_commit_waits() -> None:
    """The server has the statement and waits for the row's lock: whatever was sent before, one commit takes effect."""
    entered, watchers = [], []

    def block(ctx: StepContext) -> None:
        entered.append(ctx.step)
        worker, locked = session(), threading.Event()
        watcher = threading.Thread(target=end_when_blocked, args=(worker, locked))
        watcher.start()
        watchers.append(watcher)
        assert locked.wait(10)

    def end_when_blocked(worker: int, locked: threading.Event) -> None:
        with another_session() as cursor:
            cursor.execute("begin")
            cursor.execute("select 1 from statestore_task where key = 't' for update")
            locked.set()
            while True:
                cursor.execute("select wait_event_type from pg_stat_activity where pid = %s", [worker])
                if cursor.fetchone() == ("Lock",):
                    break
                time.sleep(0.01)
            cursor.execute("select pg_terminate_backend(%s, 5000)", [worker])
            cursor.execute("rollback")

    script = Script(on=dict.fromkeys(SCRIPT_END.done, block))
    handle = SCRIPTED[ALIAS].start(START, task_id="t").run(app=script)
    for watcher in watchers:
        watcher.join()
    assert (handle.status, handle.state, handle.record.save_seq) == ("completed", SCRIPT_END, 3)
    assert entered == SCRIPT_END.done
    assert handle.record.attempts == 3
    assert Task.objects.using(ALIAS).get(key="t").save_seq == 3


def test_ended_after_the_failure(caplog: pytest.LogCaptureFixture) -> None:
    """A failure that could not be recorded is still raised, and the task goes on when the lease has lapsed."""
    store = stores[ALIAS].namespace(uuid.uuid4().hex)

    def fail(ctx: StepContext) -> None:
        end_session(session())
        raise ValueError("the step's own")

    task = SCRIPTED[ALIAS].start(START, task_id="t", namespace=store.names)
    with pytest.raises(ValueError, match="the step's own"):
        task.run(app=Script(on={"begin": fail}))
    assert "could not be recorded" in caplog.text
    assert task.refresh().record.leased
    age(store, 60)
    assert task.run().state == SCRIPT_END


@pytest.fixture
def _ends_the_renewer() -> Iterator[None]:
    """Leave no session of the renewing thread behind: it would keep the test database from being dropped."""
    yield
    end_other_sessions(session())


@pytest.mark.usefixtures("_ends_the_renewer")
@override_settings(STATESTORE={"HINTS": False, "LEASE": 3})
def test_ended_while_it_renews() -> None:
    """The renewing thread has a session of its own: one renewal fails, the next comes before the lease is over."""
    renewed = []

    def wait(ctx: StepContext) -> None:
        for _ in range(2):
            before, give_up = ctx._lease.renewed_at, time.monotonic() + 10
            while ctx._lease.renewed_at == before and time.monotonic() < give_up:
                time.sleep(0.01)
            renewed.append(ctx._lease.renewed_at > before and not ctx.lost)
            end_other_sessions(session())

    handle = SCRIPTED[ALIAS].start(START, task_id="t").run(app=Script(on={"begin": wait}))
    assert renewed == [True, True]
    assert (handle.state, handle.record.attempts) == (SCRIPT_END, 3)
