"""The task that is killed everywhere: each policy, each way from step to step, and effects outside the database."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django_statestore.durable import Backoff, DurableTask, ModelBudget, NotDone, Repeat, StepContext
from tests.aliases import DATABASES
from tests.crash.ledger import Outside


@dataclass(frozen=True)
class Trip:
    done: list[str]

    def and_then(self, what: str) -> "Trip":
        return Trip([*self.done, what])


START = Trip([])
END = Trip(["booked", "walked 1", "walked 2", "walked 3", "paid 1", "paid 2", "came home"])
EFFECTS = [("book", 1), ("pay", 1), ("pay", 2)]
"""Every effect outside that one run of the task has, in order."""

CALLS = 4
"""Model calls that a step with an effect reserves; it makes one."""


def _paid(state: Trip, ctx: StepContext) -> Trip | Repeat[Trip]:
    state = state.and_then(f"paid {ctx.turn}")
    return state if ctx.turn == 2 else Repeat(state)


def _make(alias: str) -> DurableTask[Trip]:
    journey = DurableTask(
        f"crash.journey.{alias}",
        revision="1",
        deadline=timedelta(days=30),
        state=Trip,
        store=alias,
        max_attempts=60,
        model_budget=ModelBudget(100, per_attempt=CALLS),
        backoff=Backoff(first=0.001, longest=0.001),
    )

    @journey.step(replay="reconcile", model_calls=CALLS)
    def book(state: Trip, ctx: StepContext) -> Trip:
        outside: Outside = ctx.app
        outside.enter(ctx)
        outside.act(ctx)
        return state.and_then("booked")

    @book.reconcile
    def booked(state: Trip, ctx: StepContext) -> Any:
        return state.and_then("booked") if ctx.app.ask(ctx) else NotDone

    @journey.step(replay="safe")
    def walk(state: Trip, ctx: StepContext) -> Trip | Repeat[Trip]:
        ctx.app.enter(ctx)
        ctx.progress(ctx.turn / 3, f"leg {ctx.turn}")
        state = state.and_then(f"walked {ctx.turn}")
        return state if ctx.turn == 3 else Repeat(state)

    @journey.step(replay="reconcile", model_calls=CALLS)
    def pay(state: Trip, ctx: StepContext) -> Trip | Repeat[Trip]:
        outside: Outside = ctx.app
        outside.enter(ctx)
        outside.act(ctx)
        return _paid(state, ctx)

    @pay.reconcile
    def paid(state: Trip, ctx: StepContext) -> Any:
        return _paid(state, ctx) if ctx.app.ask(ctx) else NotDone

    @journey.step(replay="safe")
    def come_home(state: Trip, ctx: StepContext) -> Trip:
        ctx.app.enter(ctx)
        return state.and_then("came home")

    journey.seal()
    return journey


JOURNEYS = {alias: _make(alias) for alias in DATABASES}
