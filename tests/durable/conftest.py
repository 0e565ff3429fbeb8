"""Definitions for the tests of the engine, on each store in turn."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from django_statestore import Store, flow, stores
from django_statestore.contracts.position import Position
from django_statestore.contracts.taskrecord import TaskRecord
from django_statestore.contracts.tasks import TaskPrimitives
from django_statestore.durable import DurableTask, TaskHandle
from django_statestore.durable.drive import Drive
from django_statestore.durable.place import Place
from django_statestore.durable.registry import unregister
from django_statestore.durable.task import engine_of
from django_statestore.testing import age
from tests.aliases import DATABASES
from tests.calling import Call
from tests.conftest import IDS

from .rows import Rows, rows_of

STORES = [*DATABASES, "memory"]

on_databases = pytest.mark.parametrize("alias", DATABASES, ids=lambda alias: IDS.get(alias, alias), indirect=True)
"""What only a database shows: its statements, and that it joins transactions."""


@dataclass(frozen=True)
class State:
    """The state of the tests' tasks: what ran, in order."""

    ran: tuple[str, ...] = ()
    n: int = 0

    def then(self, what: str, n: int | None = None) -> "State":
        return State((*self.ran, what), self.n if n is None else n)


@dataclass
class Bench:
    """Make definitions on one store and drive their tasks in one form."""

    alias: str
    store: Store
    call: Call
    definitions: list[DurableTask[Any]] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return self.store.names

    def define(self, id: str = "", **options: Any) -> DurableTask[State]:
        defaults: dict[str, Any] = {"revision": "1", "deadline": 3600, "state": State, "store": self.alias}
        definition: DurableTask[State] = DurableTask(id or f"test.{uuid.uuid4().hex[:8]}", **(defaults | options))
        self.definitions.append(definition)
        return definition

    def start(self, task: DurableTask[State], task_id: str = "t", state: State | None = None) -> TaskHandle[State]:
        return self.call(task.start, State() if state is None else state, task_id=task_id, namespace=self.names)

    def run(self, task: DurableTask[State], task_id: str = "t", **options: Any) -> TaskHandle[State]:
        return self.call(task.run, task_id, namespace=self.names, **options)

    def get(self, task: DurableTask[State], task_id: str = "t") -> TaskHandle[State]:
        return self.call(task.get, task_id, namespace=self.names)

    def cancel(self, task: DurableTask[State], reason: str = "enough", task_id: str = "t") -> TaskHandle[State]:
        return self.call(task.cancel, task_id, reason, namespace=self.names)

    def record(self, task_id: str = "t") -> TaskRecord:
        record = self.engine.task_read(self.store.durable.entry(task_id)).run()
        assert record is not None
        return record

    def outcomes(self, task_id: str = "t") -> list[tuple[str, str]]:
        """Return (step, outcome) of each kept save, the oldest first."""
        return [(saved.step, saved.outcome) for saved in self.rows.saves(task_id)]

    @property
    def rows(self) -> Rows:
        return rows_of(self.store)

    def age(self, seconds: float) -> None:
        age(self.store, seconds)

    def one_step(self, task: DurableTask[State], task_id: str = "t") -> None:
        """Drive the task for one step, as a worker that was told to stop does."""
        flow.run(self.drive(task, task_id, stopping=lambda: True).run())

    def drive(self, task: DurableTask[State], task_id: str = "t", **options: Any) -> Drive[State]:
        place = Place(self.store, self.engine, self.store.durable.entry(task_id), task)
        return Drive(task, place, **options)

    def die(self, task: DurableTask[State], task_id: str = "t", calls: int = 0) -> Position:
        """Do what a worker had done that dies inside the next step, and let its lease lapse."""
        record = self.record(task_id)
        interrupted = record.status == "running"
        enter = not (interrupted and task.steps[record.step_index].replay == "reconcile")
        grant = self.engine.task_claim(record.position, "a worker that died", 60_000, enter=enter, calls=calls).run()
        assert grant is not None, "the task was not due"
        self.age(61)
        return Position(record.id, grant.fence, record.save_seq)

    @property
    def engine(self) -> TaskPrimitives:
        return engine_of(self.store)


@pytest.fixture(autouse=True)
def no_hints(settings: Any) -> None:
    """Send no messages: these tests drive the tasks themselves."""
    settings.STATESTORE = {"HINTS": False}


@pytest.fixture(params=STORES, ids=lambda alias: IDS.get(alias, alias))
def alias(request: pytest.FixtureRequest, settings: Any) -> str:
    """Name each store that can carry the engine in turn."""
    alias = str(request.param)
    if alias == "memory":
        backend = "django_statestore.backends.memory.MemoryBackend"
        settings.STATESTORES = {**settings.STATESTORES, alias: {"BACKEND": backend}}
    return alias


@pytest.fixture
def bench(alias: str, store: Store, call: Call) -> Iterator[Bench]:
    bench = Bench(alias, stores[alias].at(store.names), call)
    yield bench
    for definition in bench.definitions:
        unregister(definition)
