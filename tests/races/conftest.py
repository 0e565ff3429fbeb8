"""Where the races are held: on each store of several processes, and on SQLite as Django sets it up by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from tests.processes import Processes

from .course import DEFAULTS, Course, Starter

ALIASES = [pytest.param(alias, id="sqlite" if alias == "default" else alias) for alias in settings.STATESTORES]


@pytest.fixture(scope="session")
def starter(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    processes = Processes()
    yield Starter(processes, tmp_path_factory.mktemp("races"))
    processes.close()


@pytest.fixture(params=[*ALIASES, DEFAULTS])
def course(request: pytest.FixtureRequest, tmp_path: Path, starter: Starter) -> Course:
    return Course(request.param, tmp_path, starter)
