"""A throw-away server in a process of its own, which ends with the process that started it, however that one ends.

The server's module, run as a script, prints the address and then obeys: each line on its standard input is an order,
answered by the same line when it is done, and the end of that input is the end of the server and its files.
"""

import subprocess
import sys
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

ROOT = Path(__file__).resolve().parents[2]

Order: TypeAlias = Literal["end", "kill", "start", "freeze", "thaw"]
"""End every session and the server; kill all its processes; start it on what is there; stop them and let them go on."""


class Unavailable(Exception):
    """No server could be started; the text says why."""


class Served:
    """A running server; `url` names it. It can be ended or killed, and started again: same data, same address."""

    def __init__(self, module: str, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C must not reach the server before the tests have ended
        )
        self.url = self._answer()

    def order(self, order: Order) -> None:
        """Have something done to the server; it is done when this returns."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        assert self._answer() == order

    def stop(self) -> None:
        """Stop the server and wait until it is gone, with its files."""
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        if not answer:
            _, errors = self._process.communicate()
            raise Unavailable((errors.strip() or "it ended without a word").splitlines()[-1])
        return answer


class Obedient(Protocol):
    """What a server's module has to have for orders."""

    url: str

    def start(self) -> None: ...
    def end(self) -> None: ...
    def kill(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...


def obey(server: Obedient) -> None:
    """Print the address, and do what is ordered until nobody can order anything."""
    print(server.url, flush=True)  # noqa: T201
    for line in sys.stdin:
        getattr(server, line.strip())()
        print(line, end="", flush=True)  # noqa: T201
