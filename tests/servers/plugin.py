"""A pytest plugin that starts the servers before Django's settings are read, and says what could not run."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.servers import postgres, valkey

if TYPE_CHECKING:
    from tests.servers.cluster import Cluster

NOT_RUN = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # a wrapper runs before pytest-django, which reads the settings here
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    early_config.stash[NOT_RUN] = []
    if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit the controller's environment and servers
        start_all(early_config)
    return (yield)


def start_all(config: pytest.Config) -> None:
    """Make the folder of the test databases, start what can be started, and put the addresses in the environment."""
    folder = tempfile.mkdtemp(prefix="statestore-tests-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["STATESTORE_TEST_DIR"] = folder
    os.environ["STATESTORE_BROKER"] = os.path.join(folder, "broker")
    os.environ.pop("STATESTORE_SQLITE", None)
    os.environ.pop("STATESTORE_POSTGRES_URL", None)
    try:
        os.environ["STATESTORE_POSTGRES_URL"] = find_postgres(config)
    except postgres.Unavailable as reason:
        config.stash[NOT_RUN].append(f"PostgreSQL ({reason})")
    os.environ.pop("STATESTORE_REDIS_URL", None)
    try:
        os.environ["STATESTORE_REDIS_URL"] = find_redis(config)
    except valkey.Unavailable as reason:
        config.stash[NOT_RUN].append(f"Redis ({reason})")
    os.environ.pop("STATESTORE_REDIS7_URL", None)
    if os.environ.get("STATESTORE_REDIS_URL"):
        try:
            os.environ["STATESTORE_REDIS7_URL"] = find_redis7(config)
        except valkey.Unavailable as reason:
            config.stash[NOT_RUN].append(f"Redis 7.0 ({reason})")


def find_postgres(config: pytest.Config) -> str:
    """Return the URL of the server that STATESTORE_TEST_POSTGRES names, else of one started for this run."""
    if importlib.util.find_spec("psycopg") is None:
        raise postgres.Unavailable("psycopg is missing: install the dev extra")
    if url := os.environ.get("STATESTORE_TEST_POSTGRES"):
        return url
    server = postgres.Server()
    config.add_cleanup(server.stop)
    return server.url


def find_redis(config: pytest.Config) -> str:
    """Return the URL of the server that STATESTORE_TEST_REDIS names, else of one started for this run."""
    if importlib.util.find_spec("redis") is None:
        raise valkey.Unavailable("redis is missing: install the test extra")
    if url := os.environ.get("STATESTORE_TEST_REDIS"):
        return url
    server = valkey.Server()
    config.add_cleanup(server.stop)
    return server.url


def find_redis7(config: pytest.Config) -> str:
    """Return the URL of a second server: the Redis that the distribution brings, or "" where it brings none.

    .ci/run sets STATESTORE_TEST_REDIS7: there it must be.
    """
    binary = shutil.which("redis-server", path=f"{os.environ.get('PATH', '')}:/usr/bin")
    version = subprocess.run([binary, "--version"], capture_output=True, text=True).stdout if binary else ""
    if not version.startswith("Redis server v="):  # Valkey goes by that name too
        if os.environ.get("STATESTORE_TEST_REDIS7"):
            raise valkey.Unavailable("there is no redis-server on PATH")
        return ""
    server = valkey.Server(str(binary))
    config.add_cleanup(server.stop)
    return server.url


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator["Cluster"]:
    """Return a cluster of three nodes, formed when it is first asked for."""
    try:
        from tests.servers.cluster import Cluster

        running = Cluster()
    except (ImportError, valkey.Unavailable) as reason:
        pytestconfig.stash[NOT_RUN].append(f"the Redis cluster ({reason})")
        pytest.skip(f"there is no cluster: {reason}")
    yield running
    running.stop()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """End the run at once if the test databases cannot be made: every test would report the same long traceback."""
    try:
        return (yield)
    except Exception:
        if fixturedef.argname == "django_db_setup":
            pytest.exit(f"the test databases cannot be made\n{traceback.format_exc()}", returncode=1)
        raise


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not_run := config.stash[NOT_RUN]:
        consequence = "; in CI that fails the run" if in_ci() else ""
        terminalreporter.write_line(f"not run: {', '.join(not_run)}{consequence}", red=in_ci(), yellow=not in_ci())


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash[NOT_RUN] and in_ci():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")
