"""Workers that die: each is a fork of one prepared child, so a death costs milliseconds instead of an interpreter.

The child that forks holds no connection; a fork opens its own, as a prefork worker does.
"""

import json
import os
import signal
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from django.db import connections, transaction
from django.test import override_settings

from tests.processes import Child

T = TypeVar("T")

LEASE = 60

# The other threads of a child wait, for its parent's word or for a lease to renew, and hold no lock that a fork wants.
warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*multi-threaded")


def configure(**values: object) -> None:
    """Set STATESTORE for the rest of this process, without hints."""
    override_settings(STATESTORE={"HINTS": False, **values}).enable()


def fork(work: Callable[[], object]) -> int:
    """Do `work` in a fork and return its exit status, negative for a signal."""
    pid = spawn(work)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def spawn(work: Callable[[], object]) -> int:
    assert all(connection.connection is None for connection in connections.all(initialized_only=True))
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def die(work: Callable[[], object], what: str) -> None:
    """Do `work` in a fork that does not survive it."""
    status = fork(work)
    assert status == -signal.SIGKILL, f"status {status} instead of a death at {what}"


def together(count: int, work: Callable[[int], T], folder: Path) -> list[T]:
    """Do `work(number)` in so many forks, let go at once; return what each returned, plain values."""
    gate, opener = os.pipe()

    def wait_and_work(number: int) -> None:
        os.close(opener)
        os.read(gate, 1)  # the end of the pipe
        (folder / f"answer-{number}").write_text(json.dumps(work(number)))

    pids = [spawn(lambda: wait_and_work(number)) for number in range(count)]  # noqa: B023
    os.close(gate)
    os.close(opener)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert statuses == [0] * count
    return [json.loads((folder / f"answer-{number}").read_text()) for number in range(count)]


def freeze(child: Child, alias: str) -> None:
    """Stop a child, at a moment when it does not hold the write lock of SQLite's file: it would keep it."""
    with transaction.atomic(alias):  # takes that lock
        child.pause()
