"""Two stores that are asked the same, and how what they tell is compared: no ids, no fences, no clocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any

import pytest

from django_statestore import Store
from django_statestore.contracts.mailbox import DueTask
from django_statestore.contracts.position import Position
from django_statestore.contracts.taskrecord import TaskRecord
from django_statestore.keys import encode_namespace

KEYS = ["a", "b"]

EXACT = (
    "driven", "definition", "revision", "fingerprint", "status", "step_index", "turn", "attempts", "max_attempts",
    "max_calls", "reserved_calls", "max_calls_per_attempt", "reason", "save_seq", "claims", "worker", "waiting_for",
    "wait_spec", "signal_seq", "cancel_requested", "progress", "progress_text", "last_error", "state",
    "saved_attempts", "saved_by",
)  # fmt: skip

INSTANTS = ("wake_at", "resume_at", "deadline", "mismatch_since", "finished_at")

_OWN = {"id", "task", "fence", "now", "namespace"}
"""Fields of answers that each store fills in its own way."""


@dataclass
class Side:
    """Be one of the two stores, and what was read from it before."""

    store: Store
    read: list[Position] = field(default_factory=list)
    letters: list[int] = field(default_factory=list)
    keys: dict[int, str] = field(default_factory=dict)
    """Which task an id is of, as far as was seen."""

    @property
    def engine(self) -> Any:
        return self.store.backend

    @property
    def namespace(self) -> str:
        return encode_namespace(self.store.names)

    def entry(self, key: str) -> Any:
        return self.store.durable.entry(key)

    def record(self, key: str) -> TaskRecord | None:
        record: TaskRecord | None = self.engine.task_read(self.entry(key)).run()
        if record is not None:
            self.keys[record.id] = key
        return record

    def at(self, key: str, late: int) -> Position | None:
        """Return where the task stands, or what was read some time before. The engine leaves what is not its own."""
        record = self.record(key)
        if record is not None and record.driven:
            self.read.append(record.position)
        return self.read[-1 - late % len(self.read)] if self.read else None

    def letter(self, key: str, name: str) -> int | None:
        """Return the oldest signal that was not used, as the engine finds it."""
        record = self.record(key)
        found = record and self.engine.task_mail(record.id, name).run()
        if found:
            self.letters.append(found.id)
        return found.id if found else None

    def all_of(self, key: str) -> Any:
        """Return whatever can be told of one task beside its row."""
        record = self.record(key)
        if record is None:
            return None
        engine, task = self.engine, record.id
        whole = [
            engine.task_history(task), engine.task_sizes(task), engine.task_lines(task, 0, 1000),
            engine.task_letters(task), *(engine.task_calls(task, save) for save in range(record.save_seq + 1)),
            *(engine.task_saved(task, save) for save in range(record.save_seq + 1)),
        ]  # fmt: skip
        return told([each.run() for each in whole])


Apply = Callable[[Side], Any]


def told(answer: Any) -> Any:
    """Return what two stores must tell alike: instants only by whether there are any."""
    if isinstance(answer, DueTask):
        return answer.key
    if is_dataclass(answer) and not isinstance(answer, type):
        return {each.name: told(getattr(answer, each.name)) for each in fields(answer) if each.name not in _OWN}
    if isinstance(answer, list | tuple):
        each = [told(one) for one in answer]
        return sorted(each) if answer and isinstance(answer[0], DueTask) else each
    return "then" if isinstance(answer, datetime) else answer


def check_alike(sides: tuple[Side, Side], key: str) -> tuple[int, int]:
    """Check that both show the same task, where they were asked at about the same time; return the fences."""
    one, other = (side.record(key) for side in sides)
    if one is None or other is None:
        assert one is other
        return 0, 0
    assert {name: getattr(other, name) for name in EXACT} == {name: getattr(one, name) for name in EXACT}
    assert _shown(other) == _shown(one)
    assert _left(other) == {name: _about(each) for name, each in _left(one).items()}
    assert _named(sides[1], other) == _named(sides[0], one)
    return one.fence, other.fence


def _about(seconds: float | None) -> Any:
    return None if seconds is None else pytest.approx(seconds, abs=2)


def _shown(record: TaskRecord) -> list[bool]:
    return [
        record.finished, record.parked, record.leased, record.due, record.restful, record.overdue, record.timed_out,
    ]  # fmt: skip


def _left(record: TaskRecord) -> dict[str, float | None]:
    """Return the seconds until each of the instants."""
    instants = {name: getattr(record, name) for name in INSTANTS}
    return {name: None if at is None else (at - record.now).total_seconds() for name, at in instants.items()}


def _named(side: Side, record: TaskRecord) -> tuple[Any, str | None]:
    """Return what its ids stand for: what it received, and whose fork it is."""
    received = record.received and side.engine.task_letter(record.received).run()
    return told(received), None if record.forked_from is None else side.keys[record.forked_from]
