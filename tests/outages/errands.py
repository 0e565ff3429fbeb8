"""The task of five steps that is driven while its server comes and goes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django_statestore.durable import Backoff, DurableTask, NotDone, Sleep, StepContext
from tests.outages.targets import ALIAS


@dataclass(frozen=True)
class Errand:
    number: int
    ran: list[str]

    def then(self, step: str) -> Errand:
        return Errand(self.number, [*self.ran, step])


TASK = DurableTask(
    "outages.errand",
    revision="1",
    deadline=timedelta(days=1),
    state=Errand,
    store=ALIAS,
    backoff=Backoff(first=0.2, longest=1),
    max_attempts=30,
)


@TASK.step(replay="safe")
def gather(state: Errand, ctx: StepContext) -> Errand:
    ctx.app.enter(ctx)
    ctx.append("log", state.number)
    return state.then("gather")


@TASK.step(replay="atomic")
def pay(state: Errand, ctx: StepContext) -> Errand:
    ctx.app.pay(ctx)
    return state.then("pay")


@TASK.step(replay="reconcile")
def book(state: Errand, ctx: StepContext) -> Errand:
    ctx.app.book(ctx)
    return state.then("book")


@book.reconcile
def booked(state: Errand, ctx: StepContext) -> Any:
    return state.then("book") if ctx.app.booked(ctx) else NotDone


@TASK.step(replay="safe")
def tell(state: Errand, ctx: StepContext) -> Errand | Sleep[Errand]:
    ctx.app.enter(ctx)
    done = state.then("tell")
    return Sleep(done, 0.5) if state.number % 10 == 0 else done


@TASK.step(replay="safe")
def file(state: Errand, ctx: StepContext) -> Errand:
    ctx.app.enter(ctx)
    return state.then("file")


def first(number: int) -> Errand:
    return Errand(number, [])
