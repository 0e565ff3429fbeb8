"""Real child processes on the test databases: for races, and for what a killed or a paused worker leaves behind.

A child is a fresh interpreter that calls one module-level function. It never outlives its test: the fixture kills what
is left, and a child whose parent died ends itself.
"""

import contextlib
import functools
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent


class ChildFailed(AssertionError):
    """A child raised, died or kept silent; the text holds its traceback and its output."""


def environment() -> dict[str, str]:
    """Return the environment in which another process opens the test databases of this one."""
    variables = os.environ | {
        "DJANGO_SETTINGS_MODULE": "testproject.settings",
        "PYTHONPATH": str(ROOT),
        "STATESTORE_DEBUG": "0",
        "STATESTORE_SQLITE": str(connections["default"].settings_dict["NAME"]),
    }
    if "postgres" in connections:
        variables["STATESTORE_POSTGRES_URL"] = _url(connections["postgres"].settings_dict)
    return variables


def _url(database: dict[str, Any]) -> str:
    login = f"{quote(database['USER'])}:{quote(database['PASSWORD'], safe='')}"
    options = {"host": database["HOST"], "port": database["PORT"], **database["OPTIONS"]}
    query = "&".join(f"{name}={quote(str(value))}" for name, value in options.items() if value)
    return f"postgresql://{login}@/{quote(database['NAME'])}?{query}"


class Child:
    """One child process; made by `Processes.start`."""

    def __init__(self, folder: Path, function: Callable[[], object]) -> None:
        call, self._result = folder / "call", folder / "result"
        call.write_bytes(pickle.dumps(function))
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.output: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "tests.child", str(call), str(self._result)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,  # what the child starts is killed with it, and Ctrl-C reaches the parent alone
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def go(self) -> None:
        """Let the child pass one `tests.child.wait()`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildFailed(self._report("ended before it was told")) from None

    def expect(self, text: str, timeout: float = 30) -> str:
        """Wait for a line that contains the text and return it; lines before it are passed over."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self._lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise ChildFailed(self._report(f"no {text!r} within {timeout} seconds")) from None
            if line is None:
                raise ChildFailed(self._report(f"ended without {text!r}"))
            if text in line:
                return line

    def result(self, timeout: float = 120) -> Any:
        """Wait for the end and return what the function returned; `ChildFailed` carries its traceback."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ChildFailed(self._report(f"still running after {timeout} seconds")) from None
        self._reader.join(5)  # what outlives the child may hold its pipe
        if not self._result.exists():
            raise ChildFailed(self._report(f"died with status {self._process.returncode}"))
        returned, value = pickle.loads(self._result.read_bytes())
        if not returned:
            raise ChildFailed(self._report(str(value)))
        return value

    def pause(self) -> None:
        """Stop the process where it is, as a host that freezes would."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL to the process and what it started, and wait until it is gone; no error if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def abandon(self) -> None:
        """Close the pipe to the child, as the death of this process would."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        self.kill()
        self._reader.join(5)  # what outlives the child may hold its pipe
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            self.output.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def _report(self, what: str) -> str:
        return "\n".join([f"child {self.pid}: {what}", *self.output])


class Processes:
    """The children of one test."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="statestore-children-")
        self._children: list[Child] = []

    def start(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Child:
        """Start a child on `function(*args, **kwargs)`; it does not wait for the others."""
        child = self._prepare(functools.partial(function, *args, **kwargs))
        child.go()
        return child

    def race(
        self, count: int, function: Callable[Concatenate[int, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> list[T]:
        """Run `function(number, *args, **kwargs)` in so many children, let go together; return what each returned."""
        children = [self._prepare(functools.partial(function, number, *args, **kwargs)) for number in range(count)]
        for child in children:
            child.expect("ready")
        for child in children:
            child.go()
        return [child.result() for child in children]

    def close(self) -> None:
        """Kill every child that is left."""
        for child in self._children:
            child.close()
        self._folder.cleanup()

    def _prepare(self, function: Callable[[], object]) -> Child:
        folder = Path(self._folder.name, str(len(self._children)))
        folder.mkdir()
        child = Child(folder, function)
        self._children.append(child)
        return child
