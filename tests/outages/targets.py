"""The servers that these tests end, kill and freeze: how a child process reaches one, and what it has it do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from django.core.management import call_command
from django.db import connections

from django_statestore import Store
from django_statestore.backends.base import BaseBackend
from testproject.databases import postgres, sqlite

Kind: TypeAlias = Literal["postgres", "valkey", "sqlite"]
"""SQLite has no server: its URL is the path of the file."""

ALIAS = "outages"
_OTHERS = """
pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""


@dataclass(frozen=True)
class Target:
    """A server of the tests' own, and the options of connections to it."""

    kind: Kind
    url: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def store(self, *names: str) -> Store:
        """Return a new store on the server, and define the alias of a database for it."""
        return self._backend().store().namespace(*names)

    def migrate(self) -> None:
        """Make the tables of a database."""
        self.store()
        call_command("migrate", database=ALIAS, verbosity=0)

    def _backend(self) -> BaseBackend:
        if self.kind != "valkey":
            from django_statestore.backends.database import DatabaseBackend

            if self.kind == "postgres":
                settings = postgres(self.url)
            else:
                settings = sqlite(self.url, test_folder=Path(self.url).parent)
            settings["OPTIONS"] = {**settings["OPTIONS"], **self.options}
            described = connections.configure_settings({"default": connections.settings["default"], ALIAS: settings})
            if ALIAS in connections.settings:  # this thread may have a connection with other options
                connections[ALIAS].close()
                del connections[ALIAS]
            connections.settings[ALIAS] = described[ALIAS]
            return DatabaseBackend(database=ALIAS)
        from django_statestore.backends.redis import RedisBackend

        query = "&".join(f"{name}={value}" for name, value in self.options.items())
        return RedisBackend(location=f"{self.url}?{query}")

    def sessions(self) -> set[str]:
        """Return what names the connection of this thread to the server; on Valkey there may be others among them."""
        if self.kind == "postgres":
            return {str(connections[ALIAS].connection.info.backend_pid)}
        with self._client() as client:
            return {each["id"] for each in client.client_list() if each["id"] != str(client.client_id())}

    def end_sessions(self) -> None:
        """Have the server end every connection but the one that asks for it."""
        self._apart(self._end_sessions)

    def _end_sessions(self) -> None:
        if self.kind == "postgres":
            with connections[ALIAS].cursor() as cursor:
                cursor.execute(f"select pg_terminate_backend(pid, 5000) from {_OTHERS}")
                assert all(ended for (ended,) in cursor.fetchall())
        else:
            with self._client() as client:
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def await_idle_end(self) -> None:
        """Have the server end the connections that are idle, and wait until they are gone."""
        self._apart(self._await_idle_end)

    def _await_idle_end(self) -> None:
        give_up = time.monotonic() + 20
        if self.kind == "postgres":  # its limit is an option of the connections
            with connections[ALIAS].cursor() as cursor:
                others = 1
                while others:
                    assert time.monotonic() < give_up
                    cursor.execute(f"select count(*) from {_OTHERS}")
                    (others,) = cursor.fetchone()
        else:
            with self._client() as client:
                client.config_set("timeout", 1)
                while len(client.client_list()) > 1:
                    assert time.monotonic() < give_up
                    time.sleep(0.02)
                client.config_set("timeout", 0)

    def _client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.url)

    @staticmethod
    def _apart(work: Callable[[], None]) -> None:
        """Do it in a thread, which has connections of its own."""
        failed: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)
            finally:
                connections.close_all()

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
