"""``manage.py check``: the message is the problem, the hint is the remedy."""

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, current_app
from django.db import connections

from django_statestore.backends.database.checks import check_database
from django_statestore.checks import check_settings, check_stores, check_sweep
from django_statestore.durable import DurableTask
from django_statestore.durable.registry import unregister

DATABASE = "django_statestore.backends.database.DatabaseBackend"


def ids(messages: Any) -> list[str]:
    assert all(message.hint for message in messages)
    return [message.id for message in messages]


def test_the_test_project_has_nothing_to_report() -> None:
    assert [*check_stores(), *check_settings(), *check_sweep()] == []


@pytest.mark.parametrize(
    ("store", "culprit"),
    [
        ({"BACKEND": "nowhere.Backend"}, "STATESTORES['bad']['BACKEND']"),
        ({"BACKEND": DATABASE, "OPTIONS": {"databse": "x"}}, "STATESTORES['bad']['OPTIONS']['databse']"),
        ({"BACKEND": DATABASE, "OPTIONS": {"database": "nowhere"}}, "STATESTORES['bad']['OPTIONS']['database']"),
        ({"BACKEND": DATABASE, "OPTIONS": {"namespace": [""]}}, "STATESTORES['bad']['OPTIONS']['namespace']"),
        ({"BACKEND": DATABASE, "OPTIONS": {"prepare": "no"}}, "STATESTORES['bad']['OPTIONS']['prepare']"),
        ({"BACKEND": DATABASE, "LOCATION": "x"}, "STATESTORES['bad']['LOCATION']"),
    ],
    ids=str,
)
def test_a_store_that_cannot_be_made(settings: Any, store: dict[str, Any], culprit: str) -> None:
    settings.STATESTORES = {"default": {"BACKEND": DATABASE}, "bad": store}
    messages = check_stores()
    assert ids(messages) == ["statestore.E001"]
    assert culprit in messages[0].msg


@pytest.mark.parametrize(
    ("values", "culprit"),
    [({"LEESE": 1}, "LEESE"), ({"LEASE": 0}, "LEASE"), ({"MAX_CLAIMS": 0}, "MAX_CLAIMS"), ({"HINTS": 1}, "HINTS")],
    ids=str,
)
def test_a_setting_that_is_wrong(settings: Any, values: dict[str, Any], culprit: str) -> None:
    settings.STATESTORE = values
    messages = check_settings()
    assert ids(messages) == ["statestore.E002"]
    assert culprit in messages[0].msg
    assert check_sweep() == []


def test_settings_that_do_not_go_together(settings: Any) -> None:
    settings.STATESTORE = {"LEASE": 0.5, "SWEEP_EVERY": 30, "NOTIFY_GRACE": 10}
    assert ids(check_settings()) == ["statestore.W001", "statestore.W002"]


@pytest.fixture
def definition() -> Iterator[DurableTask[Any]]:
    task: DurableTask[Any] = DurableTask("checks.t", revision="1", deadline=1, is_state=lambda value: True)
    yield task
    unregister(task)


def test_durable_tasks_without_a_sweep(definition: DurableTask[Any], settings: Any) -> None:
    before = current_app._get_current_object()
    app = Celery("checks", set_as_current=True)
    try:
        assert ids(check_sweep()) == ["statestore.W003"]
        settings.STATESTORE = {"HINTS": False}
        assert check_sweep() == []
        settings.STATESTORE = {}
        app.conf.beat_schedule = {"any name": {"task": "statestore.sweep", "schedule": 30}}
        assert check_sweep() == []
        app.conf.beat_schedule = {}
        app.conf.beat_scheduler = "django_celery_beat.schedulers:DatabaseScheduler"
        assert check_sweep() == []
    finally:
        before.set_current()


class Connection:
    """Look like a connection of another kind, as far as its settings go: no server of that kind is needed."""

    alias = "other"

    def __init__(self, vendor: str, options: dict[str, Any], version: tuple[int, ...] = (3, 40)) -> None:
        self.vendor = vendor
        self.settings_dict = {"OPTIONS": options}
        self.Database = type("Database", (), {"sqlite_version_info": version})


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        (Connection("oracle", {}), ["statestore.E003"]),
        (Connection("sqlite", {"transaction_mode": "IMMEDIATE"}, (3, 34, 1)), ["statestore.E004"]),
        (Connection("sqlite", {"transaction_mode": "immediate"}), []),
        (Connection("sqlite", {}), ["statestore.W004"]),
        (Connection("sqlite", {"transaction_mode": "DEFERRED"}), ["statestore.W004"]),
        (Connection("postgresql", {}), []),
        (Connection("postgresql", {"isolation_level": "SERIALIZABLE"}), ["statestore.W005"]),
    ],
    ids=lambda value: value.vendor if isinstance(value, Connection) else "",
)
def test_a_database_that_does_not_suit(connection: Any, expected: list[str]) -> None:
    messages = check_database(connection)
    assert ids(messages) == expected
    assert all("other" in message.msg for message in messages)


def test_the_isolation_levels_of_the_driver() -> None:
    if "postgres" not in connections:
        return
    from psycopg import IsolationLevel

    assert ids(check_database(Connection("postgresql", {"isolation_level": IsolationLevel.REPEATABLE_READ}))) == [  # type: ignore[arg-type]
        "statestore.W005"
    ]
    assert check_database(Connection("postgresql", {"isolation_level": IsolationLevel.READ_COMMITTED})) == []  # type: ignore[arg-type]
