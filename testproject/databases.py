"""How the test project talks to its databases."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


def sqlite(name: str | os.PathLike[str], *, test_folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the settings that suit several processes on one SQLite file.

    The test database is a file too, so that other processes can open it.
    """
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.fspath(name),
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
        "TEST": {"NAME": os.fspath(Path(test_folder) / "statestore-test.sqlite3")},
    }


def postgres(url: str) -> dict[str, Any]:
    """Return the settings for a PostgreSQL URL; `?host=` names the folder of a Unix socket."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", parts.hostname or ""),
        "PORT": options.pop("port", str(parts.port or "")),
        "OPTIONS": options,
    }
