"""No broker stands beside these tests: the row decides, and workers are called by name."""

from collections.abc import Iterator

import pytest
from django.test import override_settings


@pytest.fixture(autouse=True)
def _no_hints() -> Iterator[None]:
    with override_settings(STATESTORE={"HINTS": False}):
        yield
