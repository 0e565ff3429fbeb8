"""The second task that is killed everywhere: calls and items, an atomic step, sleeps, waits, and signals."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group

from django_statestore.durable import (
    Backoff,
    DurableTask,
    Finish,
    ModelBudget,
    NotDone,
    Repeat,
    Sleep,
    StepContext,
    WaitFor,
)
from tests.aliases import DATABASES
from tests.crash.journey import CALLS, Trip
from tests.crash.ledger import Outside

REST = 1000
"""Seconds of every sleep, and of every time-out that passes; far longer than a lease."""

LONG = REST * 1000

LARGE = 70_000
"""Characters of a result that is too large for the journal and is spooled."""


@dataclass(frozen=True)
class Story:
    """A definition, and what its task is sent and must come to."""

    tasks: Mapping[str, DurableTask[Trip]]
    end: Trip
    saves: int
    effects: list[tuple[str, int]]
    early: dict[str, str]
    """Signals that are sent before anything has run, with their payloads."""
    late: dict[str, str]
    """Signals that are sent once the task waits for them."""
    received: dict[tuple[str, int], str]
    """What each step and turn must receive: a payload, or nothing (``""``)."""
    items: list[str]
    """How the items that are appended begin, in order."""
    rows: list[str]
    """The rows that atomic steps make."""
    reserved: int = 0
    """The model calls of a task that nobody interrupts."""
    keyed: bool = False
    """Whether late signals have keys too; an early one always has."""


def start_with(ctx: StepContext, state: Trip, what: str) -> Trip:
    """Begin a step: note that it was entered, and what it has received."""
    outside: Outside = ctx.app
    outside.enter(ctx)
    outside.receive(ctx)
    return state.and_then(what)


def row_name(ctx: StepContext, what: str) -> str:
    return f"{ctx.store.names[-1]} {what}"


def make_row(ctx: StepContext, what: str) -> None:
    """Make a row by the ORM and an item of a queue, in the transaction of an atomic step."""
    outside: Outside = ctx.app
    Group.objects.using(ctx.store.alias).create(name=f"{row_name(ctx, what)} {uuid.uuid4().hex}")
    outside.points.here(f"inside {ctx.step}, turn {ctx.turn}: it has made its row")
    ctx.store.queue.enqueue("rows", what)


# -- calls, a reconcile and an atomic step, a sleep, a signal that is early and one that is late, an early end --------


def _voyage(alias: str) -> DurableTask[Trip]:
    voyage = DurableTask(
        f"crash.voyage.{alias}",
        revision="1",
        deadline=timedelta(days=300),
        state=Trip,
        store=alias,
        max_attempts=60,
        model_budget=ModelBudget(100, per_attempt=CALLS),
        backoff=Backoff(first=0.001, longest=0.001),
    )

    @voyage.step(replay="safe")
    def ask(state: Trip, ctx: StepContext) -> Trip | Repeat[Trip]:
        state = start_with(ctx, state, f"asked {ctx.turn}")
        for number in (1, 2):
            ctx.append("log", ctx.app.call(ctx, "price", number, LARGE if (ctx.turn, number) == (2, 2) else 0))
        return state if ctx.turn == 2 else Repeat(state)

    @voyage.step(replay="reconcile", model_calls=CALLS)
    def book(state: Trip, ctx: StepContext) -> Trip:
        state = start_with(ctx, state, "booked")
        ctx.app.call(ctx, "seat", 1)
        ctx.app.act(ctx)
        return state

    @book.reconcile
    def booked(state: Trip, ctx: StepContext) -> Any:
        return state.and_then("booked") if ctx.app.ask(ctx) else NotDone

    @voyage.step(replay="atomic", model_calls=CALLS)
    def pay(state: Trip, ctx: StepContext) -> Trip:
        state = start_with(ctx, state, "paid")
        ctx.spend_model_call()
        make_row(ctx, "paid")
        ctx.append("log", "paid")
        return state

    @voyage.step(replay="safe")
    def rest(state: Trip, ctx: StepContext) -> Sleep[Trip]:
        return Sleep(start_with(ctx, state, "rested"), REST)

    @voyage.step(replay="safe")
    def knock(state: Trip, ctx: StepContext) -> WaitFor[Trip]:
        return WaitFor(start_with(ctx, state, "knocked"), "early", timeout=LONG)

    @voyage.step(replay="reconcile", model_calls=CALLS)
    def greet(state: Trip, ctx: StepContext) -> WaitFor[Trip]:
        state = start_with(ctx, state, "greeted")
        ctx.app.act(ctx)
        return WaitFor(state, "late")

    @greet.reconcile
    def greeted(state: Trip, ctx: StepContext) -> Any:
        ctx.app.receive(ctx)
        return WaitFor(state.and_then("greeted"), "late") if ctx.app.ask(ctx) else NotDone

    @voyage.step(replay="atomic")
    def settle(state: Trip, ctx: StepContext) -> Trip:
        state = start_with(ctx, state, "settled")
        assert ctx.received is not None
        make_row(ctx, f"settled {ctx.received.payload}")
        ctx.append("log", ctx.received.payload)
        return state

    @voyage.step(replay="safe")
    def leave(state: Trip, ctx: StepContext) -> Finish[Trip]:
        return Finish(start_with(ctx, state, "left"))

    @voyage.step(replay="safe")
    def never(state: Trip, ctx: StepContext) -> Trip:
        return start_with(ctx, state, "what never comes")

    voyage.seal()
    return voyage


# -- a step that sleeps, waits in vain and waits between its turns, and a wait at the very end ------------------------


def _farewell(alias: str) -> DurableTask[Trip]:
    farewell = DurableTask(
        f"crash.farewell.{alias}",
        revision="1",
        deadline=timedelta(days=300),
        state=Trip,
        store=alias,
        max_attempts=40,
        backoff=Backoff(first=0.001, longest=0.001),
    )
    turns: dict[int, Callable[[Trip], Any]] = {
        1: lambda state: Repeat(state, delay=REST),
        2: lambda state: Repeat(state, wait_for="more", timeout=LONG),
        3: lambda state: Repeat(state, wait_for="never", timeout=REST),
        4: lambda state: Sleep(state, REST),
    }

    @farewell.step(replay="safe")
    def linger(state: Trip, ctx: StepContext) -> Any:
        return turns[ctx.turn](start_with(ctx, state, f"lingered {ctx.turn}"))

    @farewell.step(replay="safe")
    def part(state: Trip, ctx: StepContext) -> WaitFor[Trip]:
        return WaitFor(start_with(ctx, state, "parted"), "goodbye")

    farewell.seal()
    return farewell


VOYAGE = Story(
    tasks={alias: _voyage(alias) for alias in DATABASES},
    end=Trip(["asked 1", "asked 2", "booked", "paid", "rested", "knocked", "greeted", "settled", "left"]),
    saves=9,
    effects=[("book", 1), ("greet", 1)],
    early={"early": "a letter"},
    late={"late": "the money"},
    received={("greet", 1): "a letter", ("settle", 1): "the money"},
    items=["price 1", "price 2", "price 1", "price 2", "paid", "the money"],
    rows=["paid", "settled the money"],
    reserved=3,
    keyed=True,
)

FAREWELL = Story(
    tasks={alias: _farewell(alias) for alias in DATABASES},
    end=Trip(["lingered 1", "lingered 2", "lingered 3", "lingered 4", "parted"]),
    saves=5,
    effects=[],
    early={},
    late={"more": "one more", "goodbye": "so long"},
    received={("linger", 3): "one more"},
    items=[],
    rows=[],
)

STORIES = {"voyage": VOYAGE, "farewell": FAREWELL}
