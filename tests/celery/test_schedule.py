"""What beat is told, and what a worker knows."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import TestCase

from django_statestore import beat
from testproject.celery import app
from tests.celery.durable_tasks import PLAIN, Errand
from tests.processes import ROOT


def test_the_schedule_names_tasks_that_a_worker_knows(settings: Any) -> None:
    settings.STATESTORE = {"SWEEP_EVERY": 7.5}
    schedule = beat.beat_schedule()
    app.loader.import_default_modules()
    assert {entry["task"] for entry in schedule.values()} <= set(app.tasks)
    assert schedule["statestore.sweep"]["schedule"] == 7.5


def test_the_test_project_schedules_them() -> None:
    assert {entry["task"] for entry in app.conf.beat_schedule.values()} == {"statestore.sweep", "statestore.purge"}


def test_tasks_have_fixed_names_and_keep_no_results() -> None:
    app.loader.import_default_modules()
    for name in ("statestore.resume", "statestore.sweep", "statestore.purge"):
        assert app.tasks[name].ignore_result, name


@pytest.fixture
def eager() -> Any:
    """Run tasks where they are sent, as some test suites do."""
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False


@pytest.mark.django_db(databases="__all__")
@pytest.mark.usefixtures("eager")
def test_eager_celery_runs_the_task_on_commit(alias: str, names: tuple[str, ...], errand: Errand) -> None:
    with TestCase.captureOnCommitCallbacks(using=alias, execute=True):
        task = PLAIN[alias].start(errand, namespace=names)
    assert task.refresh().status == "completed"
    assert errand.noted == ["first 1", "second 1"]


SETTINGS = """
from django_statestore.beat import beat_schedule

INSTALLED_APPS = ["django_statestore"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "unused.sqlite3"}}
CELERY_BEAT_SCHEDULE = beat_schedule()
STATESTORE = {"LEASE": 5}
"""


def test_a_schedule_made_in_the_settings_does_not_freeze_the_behaviour(tmp_path: Path) -> None:
    (tmp_path / "settings_of_a_project.py").write_text(SETTINGS)
    program = "import django; django.setup(); from django_statestore import conf; print(conf.get().lease)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"DJANGO_SETTINGS_MODULE": "settings_of_a_project", "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "5000\n", done.stderr
