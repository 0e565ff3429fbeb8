"""The stores that have the contract of foreign engines: more than those that carry the engine."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as configured

from tests.aliases import DATABASES
from tests.conftest import IDS

SHARED = [*DATABASES, *(alias for alias in ("redis",) if alias in configured.STATESTORES)]
"""The stores of several processes."""


@pytest.fixture(params=[*SHARED, "memory"], ids=lambda alias: IDS.get(alias, alias))
def alias(request: pytest.FixtureRequest, settings: Any) -> str:
    alias = str(request.param)
    if alias == "memory":
        backend = "django_statestore.backends.memory.MemoryBackend"
        settings.STATESTORES = {**settings.STATESTORES, alias: {"BACKEND": backend}}
    return alias
