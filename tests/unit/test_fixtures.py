"""The fixtures that the package gives to the tests of a project."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connections

import django_statestore
from django_statestore import Store, stores
from django_statestore.backends.database import DatabaseBackend
from django_statestore.backends.memory import MemoryBackend
from django_statestore.testing import age

CONFIGURED = dict(settings.STATESTORES)


@pytest.mark.parametrize("turn", [1, 2])
def test_statestore_is_empty_for_each_test_and_serves_the_code_under_test(statestore: Store, turn: int) -> None:
    assert isinstance(statestore.backend, MemoryBackend)
    assert django_statestore.store.kv.add("k", turn) is True
    assert statestore.kv.get("k") == turn
    age(statestore, 60)


def test_statestore_needs_no_database_and_leaves_the_other_stores(statestore: Store) -> None:
    with statestore.lock.hold("k"):
        assert list(stores) == list(CONFIGURED)
    assert all(connection.connection is None or not connection.in_atomic_block for connection in connections.all())


def test_afterwards_the_stores_are_those_of_the_settings() -> None:
    assert settings.STATESTORES == CONFIGURED
    assert isinstance(stores["default"].backend, DatabaseBackend)


@pytest.mark.parametrize("turn", [1, 2])
def test_statestore_db_is_the_configured_default_in_a_namespace_of_its_own(statestore_db: Store, turn: int) -> None:
    assert statestore_db.backend is stores["default"].backend
    assert statestore_db.kv.add("k", turn) is True
    with statestore_db.lock.hold("k") as held:
        assert not held.lost
    assert stores["default"].kv.get("k") is None


def test_the_plugin_is_no_burden_where_there_is_no_project(tmp_path: Path) -> None:
    """It is loaded in every run of the environment, also where Django has no settings."""
    (tmp_path / "test_other.py").write_text("def test_it(): pass\n")
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "django_statestore.testing.plugin", "."]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_plugin_is_found_by_pytest() -> None:
    (plugin,) = (each for each in entry_points(group="pytest11") if each.name == "statestore")
    assert plugin.load() is sys.modules["django_statestore.testing.plugin"]
