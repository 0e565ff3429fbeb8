"""Eight real processes at once: never two winners, never none where one must win, and nobody sees a locked database."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from tests.processes import Processes

from . import racers

ALIASES = [pytest.param(alias, id="sqlite" if alias == "default" else alias) for alias in settings.DATABASES]
KEYS = {"default": 80, "postgres": 80, racers.DEFAULTS: 24}


class Course:
    """A database to race on."""

    def __init__(self, alias: str, folder: Path, processes: Processes) -> None:
        self._alias, self._folder, self._processes = alias, folder, processes
        self._file = str(folder / "defaults.sqlite3")
        self.keys = [f"key {number}" for number in range(KEYS[alias])]
        if alias == racers.DEFAULTS:
            self._copy()

    def _copy(self) -> None:
        schema = sqlite3.connect(connections["default"].settings_dict["NAME"])
        copy = sqlite3.connect(self._file)
        schema.backup(copy)
        copy.execute("pragma journal_mode = delete")
        schema.close()
        copy.close()

    def race(self, function: Callable[..., Any], argument: Any) -> list[Any]:
        """Return what each of eight processes returned."""
        starter = self._processes.start(racers.race, function, self._alias, self._file, str(self._folder), argument)
        results = starter.result()
        assert len(results) == racers.RACERS
        return list(results)


@pytest.fixture(params=[*ALIASES, racers.DEFAULTS])
def course(request: pytest.FixtureRequest, processes: Processes, tmp_path: Path) -> Course:
    """Give each database in turn, and a file with Django's own settings for SQLite."""
    return Course(request.param, tmp_path, processes)


def test_each_key_has_as_many_winners_as_it_must(course: Course) -> None:
    results = course.race(racers.one_winner, course.keys)
    wrong, winners = {}, set()
    for index, (name, *_, expected) in enumerate(racers.BATCHES):
        counts = Counter(itertools.chain.from_iterable(result[index] for result in results))
        wrong[name] = {key: counts[key] for key in course.keys if counts[key] != expected}
        winners |= {number for number, result in enumerate(results) if result[index]}
    assert {name: keys for name, keys in wrong.items() if keys} == {}
    assert len(winners) > 2, "this was no race"


def test_one_holds_a_lock_at_a_time_and_fences_rise(course: Course) -> None:
    fences = course.race(racers.take_turns, len(course.keys))[0]
    for key in "ab":
        assert len(fences[key]) > 10, "this was no race"
        assert all(earlier < later for earlier, later in itertools.pairwise(fences[key]))


def test_each_event_is_confirmed_once_though_some_are_given_back(course: Course) -> None:
    keys = course.keys[: len(course.keys) // 2]
    confirmed = course.race(racers.handle_events, keys)
    assert Counter(itertools.chain.from_iterable(confirmed)) == Counter(keys)


def test_a_token_is_neither_lost_nor_doubled(course: Course) -> None:
    results = course.race(racers.pass_a_token, len(course.keys))
    taken = sum(result[0] for result in results)
    assert taken > 10, "this was no race"
    assert {result[1] for result in results} == {taken}
