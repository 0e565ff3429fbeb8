"""What beat is told, and what a worker knows."""

from typing import Any

import pytest
from django.test import TestCase

from django_statestore import beat
from testproject.celery import app
from tests.celery.durable_tasks import PLAIN, Errand


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
