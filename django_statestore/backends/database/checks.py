"""What the database of a store ought to be like; asked of the settings, never of the server."""

from __future__ import annotations

from django.core.checks import CheckMessage, Error, Warning
from django.db.backends.base.base import BaseDatabaseWrapper

from .dialects import DIALECTS

_OLDEST_SQLITE = (3, 35)


def check_database(connection: BaseDatabaseWrapper) -> list[CheckMessage]:
    """Return what is wrong with the database of a store, as its settings have it."""
    path = f"DATABASES[{connection.alias!r}]"
    if connection.vendor not in DIALECTS:
        return [
            Error(
                f"{path} is {connection.vendor}, which cannot keep state.",
                hint=f"Give the store another database in OPTIONS['database']: {' or '.join(DIALECTS)}.",
                id="statestore.E003",
            )
        ]
    return _check_sqlite(connection, path) if connection.vendor == "sqlite" else _check_postgresql(connection, path)


def _check_sqlite(connection: BaseDatabaseWrapper, path: str) -> list[CheckMessage]:
    messages: list[CheckMessage] = []
    version: tuple[int, ...] = connection.Database.sqlite_version_info  # type: ignore[attr-defined]
    if version < _OLDEST_SQLITE:
        messages.append(
            Error(
                f"{path}: SQLite {'.'.join(map(str, version))} has no RETURNING.",
                hint="Use a Python with SQLite 3.35 or later.",
                id="statestore.E004",
            )
        )
    mode = connection.settings_dict.get("OPTIONS", {}).get("transaction_mode")
    if str(mode).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        messages.append(
            Warning(
                f"{path}: a transaction that reads first and writes later fails at once with 'database is locked' when "
                "another process writes meanwhile.",
                hint=f"Set {path}['OPTIONS']['transaction_mode'] to 'IMMEDIATE'.",
                id="statestore.W004",
            )
        )
    return messages


def _check_postgresql(connection: BaseDatabaseWrapper, path: str) -> list[CheckMessage]:
    level = connection.settings_dict.get("OPTIONS", {}).get("isolation_level")
    name = str(getattr(level, "name", level)).upper()
    if level is None or name in {"READ_COMMITTED", "READ_UNCOMMITTED"}:
        return []
    return [
        Warning(
            f"{path} runs at isolation level {name}: statements that meet others there are given up by the database, "
            "and inside your transactions that is a TransactionConflict.",
            hint="Use READ COMMITTED, the default, for the store; a second alias of the same database may have it.",
            id="statestore.W005",
        )
    ]
