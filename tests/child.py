"""What runs in a child process of the tests: see `tests.processes`.

Each line on standard input is one `go`; the end of that pipe means that the parent is gone.
"""

import os
import pickle
import sys
import threading
import traceback
from pathlib import Path

import django

_go = threading.Semaphore(0)


def tell(line: str) -> None:
    """Print a line for the parent's `expect`."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def wait() -> None:
    """Block until the parent says `go`."""
    _go.acquire()


def _listen() -> None:
    while data := os.read(0, 4096):
        _go.release(data.count(b"\n"))
    os._exit(1)  # the parent is gone: a child must not outlive its test


def main(call: Path, result: Path) -> None:
    threading.Thread(target=_listen, daemon=True).start()
    try:
        django.setup()
        function = pickle.loads(call.read_bytes())
        tell("ready")
        wait()
        answer = pickle.dumps((True, function()))
    except BaseException:
        answer = pickle.dumps((False, traceback.format_exc()))
    result.write_bytes(answer)


if __name__ == "__main__":
    from tests import child  # the tests' functions know this module by its name: one semaphore for both

    child.main(*map(Path, sys.argv[1:]))
