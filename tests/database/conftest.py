"""Fixtures for what one kind of database alone can show."""

from __future__ import annotations

import uuid

import pytest

from django_statestore import Store, stores


@pytest.fixture
def postgres() -> Store:
    """Return a store on PostgreSQL, whose transactions run beside one another."""
    if "postgres" not in stores:
        pytest.skip("there is no PostgreSQL")
    return stores["postgres"].namespace(f"test-{uuid.uuid4().hex[:12]}")
