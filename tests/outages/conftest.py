"""The servers that these tests stop, and children; this process itself never uses a store here."""

from __future__ import annotations

import importlib.util
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.outages.targets import Kind, Target
from tests.processes import Processes
from tests.servers import postgres, valkey

KINDS: dict[Kind, tuple[str, Any, tuple[str, ...]]] = {
    "postgres": ("psycopg", postgres, ("fsync=on", "full_page_writes=on")),
    "valkey": ("redis", valkey, ()),
}
"""The driver, the server's module, and what is asked of it: that it loses nothing when it is killed."""


@pytest.fixture(scope="session", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    driver, module, options = KINDS[request.param]
    if importlib.util.find_spec(driver) is None:
        pytest.skip(f"{driver} is missing")
    try:
        served = module.Server(*options)
    except module.Unavailable as reason:
        pytest.skip(str(reason))
    served.target = Target(request.param, served.url)
    if request.param == "postgres":
        preparing = Processes()
        preparing.start(Target.migrate, served.target).result()
        preparing.close()
    yield served
    served.stop()


@pytest.fixture
def target(server: Any) -> Target:
    wanted: Target = server.target
    return wanted


@pytest.fixture
def children() -> Iterator[Processes]:
    """Start child processes; unlike `processes` it needs no test database."""
    started = Processes()
    yield started
    started.close()


@pytest.fixture
def namespace() -> str:
    return uuid.uuid4().hex[:12]
