"""A broker that does not answer costs a caller its patience once, whatever its client library would do."""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar

import pytest
from celery import Celery

from django_statestore.durable import courier, dispatch
from testproject.celery import app as test_app
from tests.processes import Processes

SLACK = 1.5
"""Seconds that a busy machine may take on top, to import a transport for one."""


@contextmanager
def broker_at(url: str) -> Iterator[None]:
    """Have another Celery app for as long as the block."""
    app = Celery("elsewhere", broker=url)
    dispatch.try_again()
    try:
        yield
    finally:
        test_app.set_current()
        app.close()
        dispatch.try_again()


@contextmanager
def silent() -> Iterator[int]:
    """Listen on a port, take connections, and never say a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def timed_send() -> float:
    """Send a hint, which must fail, and return how long that took."""
    started = time.monotonic()
    assert not dispatch.send("default", (), "t")
    return time.monotonic() - started


def test_a_silent_broker(caplog: pytest.LogCaptureFixture) -> None:
    with silent() as port, broker_at(f"amqp://127.0.0.1:{port}"):
        assert timed_send() < courier.PATIENCE + SLACK
        assert timed_send() < 0.1
        assert timed_send() < 0.1
        dispatch.try_again()
        assert timed_send() > courier.PATIENCE / 2
    lines = [record.getMessage() for record in caplog.records if record.name == "django_statestore.dispatch"]
    assert len(lines) == 2
    assert all(line.startswith("the broker does not answer") for line in lines)


def test_a_client_library_that_never_gives_up() -> None:
    courier_to_nowhere, never = courier.Courier(), threading.Event()
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        courier_to_nowhere.carry(never.wait)
    assert time.monotonic() - started < courier.PATIENCE + SLACK
    never.set()


def test_errands_share_a_thread() -> None:
    used: set[int] = set()
    sharing = courier.Courier()
    for _ in range(20):
        sharing.carry(lambda: used.add(threading.get_ident()))
    assert len(used) == 1
    assert threading.get_ident() not in used


def test_a_fork_starts_with_threads_of_its_own(processes: Processes) -> None:
    assert processes.start(carry_before_and_after_a_fork).result() == 0


def carry_before_and_after_a_fork() -> int:
    forking = courier.Courier()
    forking.carry(lambda: None)
    child = os.fork()
    if not child:
        forking.carry(lambda: os._exit(0))
    return os.waitpid(child, 0)[1]


def test_rests_grow_until_a_message_gets_through() -> None:
    unlucky = courier.Courier()
    assert [unlucky.rest() for _ in range(6)] == [5, 10, 20, 40, 60, 60]
    before = unlucky.resting
    unlucky.wake()
    assert (before, unlucky.resting) == (True, False)
    unlucky.carry(lambda: None)
    assert unlucky.rest() == 5


def test_a_message_is_carried_in_the_context_of_its_caller() -> None:
    trace: ContextVar[str] = ContextVar("trace", default="none")
    trace.set("of the caller")
    found: list[str] = []
    courier.Courier().carry(lambda: found.append(trace.get()))
    assert found == ["of the caller"]


def test_a_broker_that_refuses(caplog: pytest.LogCaptureFixture) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    with broker_at(f"amqp://127.0.0.1:{port}"), caplog.at_level(logging.WARNING, logger="django_statestore"):
        assert timed_send() < courier.PATIENCE + SLACK
        assert timed_send() < 0.1
    assert len(caplog.records) == 1


def test_what_is_wrong_with_one_message_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    with broker_at("memory://"):
        assert not dispatch.send("default", (), "t", queue=object())  # type: ignore[arg-type]
        assert dispatch.send("default", (), "t")
    assert "a hint was not sent" in caplog.text
