"""Fixtures for tests that hold for every database, and for both forms of every operation."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from django_statestore import Store, stores
from tests.aliases import DATABASES
from tests.calling import Call
from tests.cleaning import quick_cleaning
from tests.processes import Processes

IDS = {"default": "sqlite"}


@pytest.fixture(params=[pytest.param(alias, id=IDS.get(alias, alias)) for alias in DATABASES])
def alias(request: pytest.FixtureRequest) -> str:
    """Name each store on a database in turn; it is the alias of its database too."""
    return str(request.param)


@pytest.fixture
def store(alias: str) -> Store:
    """Return a store on a database, in a namespace that no other test uses."""
    return stores[alias].namespace(f"test-{uuid.uuid4().hex[:12]}")


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    return Call(asynchronous=request.param)


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Start child processes that see what the test has committed."""
    children = Processes()
    yield children
    children.close()


@pytest.fixture(scope="session", autouse=True)
def clean_quickly() -> Iterator[None]:
    with quick_cleaning():
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the databases to tests of a store or of processes; what a test's own mark says comes first."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & {"alias", "processes"}:
            own = item.get_closest_marker("django_db")
            wanted: dict[str, Any] = {"databases": "__all__", "transaction": "processes" in fixtures}
            wanted.update(own.kwargs if own else {})
            item.add_marker(pytest.mark.django_db(**wanted), append=False)
