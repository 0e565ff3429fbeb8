"""A store to race on, and the processes that do.

They are forks of one prepared child that has used no connection yet: to start Django eight times takes longer than a
race.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import signal
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from django.db import connections, transaction

from django_statestore import Store, stores
from django_statestore.backends.database import DatabaseBackend
from tests import child
from tests.processes import Child, Processes

DEFAULTS = "sqlite-defaults"
"""An alias with Django's own settings for SQLite: a rollback journal, deferred transactions."""

RACERS = 8
Meet = Callable[[], object]


def tabular(store: Store) -> bool:
    """Tell whether a racer's store has rows to look at, and transactions."""
    return isinstance(store.backend, DatabaseBackend)


def database(store: Store) -> str:
    """Return the alias of a racer's database."""
    alias: str = store.backend.database.alias  # type: ignore[attr-defined]
    return alias


def at_once(store: Store) -> AbstractContextManager[object]:
    """Return a block for many writes, which go to the disk together where there are transactions."""
    return transaction.atomic(using=database(store)) if tabular(store) else nullcontext()


def block(store: Store, wanted: bool = True) -> AbstractContextManager[object]:
    """Return a block of the caller's own, if wanted.

    With Django's own settings for SQLite there is none: its wait for the file ends after five seconds, and what comes
    then is for the caller to handle.
    """
    wanted = wanted and tabular(store) and database(store) != DEFAULTS
    return transaction.atomic(using=database(store)) if wanted else nullcontext()


@dataclass(frozen=True)
class Race:
    """What is asked of the starter: `function(number, store, meet, *arguments)` in so many processes."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    count: int
    mortal: bool
    """Whether a racer may kill itself; it then returns None."""
    alias: str
    folder: Path
    """Where the racers are, and the file of the SQLite database that is not one of the tests' own."""


class Starter:
    """A child that forks racers, for one race after another."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self._processes, self._folder = processes, folder
        self._numbers = itertools.count()
        self._child: Child | None = None

    def race(self, race: Race) -> list[Any]:
        number = next(self._numbers)
        (self._folder / f"race-{number}").write_bytes(pickle.dumps(race))
        if self._child is None:
            self._child = self._processes.start(serve, self._folder, number)
        starter, self._child = self._child, None  # one that fails is not asked again
        starter.go()
        starter.expect(f"race {number} is over", timeout=120)
        self._child = starter
        results: list[Any] = pickle.loads((self._folder / f"results-{number}").read_bytes())
        return results


class Course:
    """A store to race on: one of the tests' own, or a file with Django's own settings for SQLite."""

    def __init__(self, alias: str, folder: Path, starter: Starter) -> None:
        self.alias, self._folder, self._starter = alias, folder, starter
        if alias == DEFAULTS:
            schema = sqlite3.connect(connections["default"].settings_dict["NAME"])
            copy = sqlite3.connect(folder / DEFAULTS)
            schema.backup(copy)
            copy.execute("pragma journal_mode = delete")
            schema.close()
            copy.close()

    def scaled(self, number: int) -> int:
        """Return how much there is to do: less where each write waits for the disk."""
        return number // 4 if self.alias == DEFAULTS else number

    def race(
        self, function: Callable[..., Any], *arguments: Any, count: int = RACERS, mortal: bool = False
    ) -> list[Any]:
        """Run `function(number, store, meet, *arguments)` in so many processes; return what each returned.

        They run in a folder of the test's own, on a store that is empty at first. `meet()` waits for all of them.
        """
        results = self._starter.race(Race(function, arguments, count, mortal, self.alias, self._folder))
        assert len(results) == count
        return results

    def look(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run the same in one process, after a race."""
        return self.race(function, *arguments, count=1)[0]


def serve(folder: Path, first: int) -> None:
    for number in itertools.count(first):
        child.wait()
        race: Race = pickle.loads((folder / f"race-{number}").read_bytes())
        (folder / f"results-{number}").write_bytes(pickle.dumps(start(race)))
        child.tell(f"race {number} is over")


def start(race: Race) -> list[Any]:
    os.chdir(race.folder)
    if race.alias == DEFAULTS:
        connections.settings[race.alias] = {**connections.settings["default"], "NAME": DEFAULTS, "OPTIONS": {}}
    forks = multiprocessing.get_context("fork")
    meeting = forks.Barrier(race.count, timeout=60)
    racers = [forks.Process(target=run, args=(race, number, meeting), daemon=True) for number in range(race.count)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    codes = [racer.exitcode for racer in racers]
    assert set(codes) <= {0, -signal.SIGKILL if race.mortal else 0}, codes
    return [None if code else pickle.loads(answer(number).read_bytes()) for number, code in enumerate(codes)]


def run(race: Race, number: int, meeting: Barrier) -> None:
    store = place(race)
    try:
        store.kv.get("warm")
        meeting.wait()
        result = race.function(number, store, meeting.wait, *race.arguments)
    except BaseException:
        traceback.print_exc()  # the test shows what its children have printed
        meeting.abort()
        raise SystemExit(1) from None
    finally:
        connections.close_all()
    answer(number).write_bytes(pickle.dumps(result))


def place(race: Race) -> Store:
    if race.alias in connections.settings:
        return DatabaseBackend(database=race.alias).store().namespace("race")
    return stores[race.alias].namespace(str(race.folder), "race")  # a database is emptied after each test, this is not


def answer(number: int) -> Path:
    return Path(f"answer-{number}")
