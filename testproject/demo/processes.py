"""The demo's real processes: Celery workers, beat, a web server.

Each is the leader of a process group that is ended as a whole.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from django.conf import settings

DEATH_SECONDS = 10.0
"""How long the system may take to end the processes of a group that was killed."""

_CELERY = ("celery", "-A", "testproject")

_WORKER = (
    "worker",
    "--concurrency=2",
    "--loglevel=INFO",
    "--without-gossip",
    "--without-mingle",
    "--without-heartbeat",
)


class Process:
    """One process and those that it starts. ``environment`` None: that of this process."""

    def __init__(
        self, kind: str, arguments: list[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.kind = kind
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "testproject.demo.attended", *arguments],
                cwd=settings.BASE_DIR,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._ended = False

    def __str__(self) -> str:
        return f"{self.kind} {self.pid}"

    @property
    def died(self) -> bool:
        """Return whether it has ended though nobody here ended it."""
        return not self._ended and self.status is not None

    @property
    def status(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._process.poll()

    def owns(self, pid: int) -> bool:
        """Return whether a running process belongs to this one's group: prefork workers run tasks in children."""
        try:
            return os.getpgid(pid) == self.pid
        except OSError:
            return False

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the process itself, as a deployment does to let it end what it does."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL to the whole group, and wait until nothing is left of it. No error if that is so already."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        if not within(DEATH_SECONDS, lambda: not group_is_left(self.pid)):
            raise RuntimeError(f"{self} was killed, but a process of its group is left")
        if self._process.stdin:
            self._process.stdin.close()


class Processes:
    """Start them; as a context manager, leave none of them."""

    def __init__(self, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log, self._environment = log, environment
        self.all: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def worker(self, *options: str) -> Process:
        return self._start("worker", [*_CELERY, *_WORKER, *options])

    def beat(self) -> Process:
        schedule = self.log.with_name("beat")
        return self._start("beat", [*_CELERY, "beat", f"--schedule={schedule}", "--pidfile=", "--loglevel=INFO"])

    def server(self, port: int) -> Process:
        """Serve the project on this machine; `insecure`: Django's own static files, though DEBUG is off."""
        return self._start("server", ["manage.py", "runserver", "--noreload", "--insecure", f"127.0.0.1:{port}"])

    def kill(self) -> None:
        """End all that are left. To nobody's loss: that is what durable tasks are for."""
        for process in self.all:
            process.kill()

    @property
    def died(self) -> Process | None:
        """Return one that has ended by itself."""
        return next((process for process in self.all if process.died), None)

    def by_pid(self, pid: int) -> Process | None:
        """Return the one that a running process belongs to."""
        return next((process for process in self.all if process.owns(pid)), None)

    def _start(self, kind: str, arguments: list[str]) -> Process:
        process = Process(kind, arguments, self.log, self._environment)
        self.all.append(process)
        return process


def group_is_left(group: int) -> bool:
    """Return whether a process of the group is there still. One that is dead but not yet reaped is not."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # of those that are dead, on macOS
    stats = list(Path("/proc").glob("[0-9]*/stat"))
    return any(_is_alive_in(group, stat) for stat in stats) if stats else True


def _is_alive_in(group: int, stat: Path) -> bool:
    try:
        state, _, found, *_ = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return False  # gone meanwhile
    return int(found) == group and state not in "ZX"


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait for a condition, for so many seconds at the most; return whether it came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True
