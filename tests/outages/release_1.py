"""A release of a project, before a change: in a process there is this one or the next, never both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django_statestore.durable import Backoff, DurableTask, NotDone, StepContext, WaitFor
from tests.outages.targets import ALIAS


@dataclass(frozen=True)
class Order:
    number: int
    ran: list[str]

    def then(self, step: str) -> Order:
        return Order(self.number, [*self.ran, step])


TASK = DurableTask(
    "outages.order",
    revision="1",
    deadline=timedelta(days=1),
    state=Order,
    store=ALIAS,
    backoff=Backoff(first=0.2, longest=1),
)


@TASK.step(replay="safe")
def gather(state: Order, ctx: StepContext) -> Order | WaitFor[Order]:
    ctx.app.enter(ctx)
    ctx.append("log", state.number)
    done = state.then("gather")
    return WaitFor(done, "go on") if state.number % 10 == 0 else done


@TASK.step(replay="atomic")
def pay(state: Order, ctx: StepContext) -> Order:
    ctx.app.pay(ctx)
    return state.then("pay")


@TASK.step(replay="reconcile")
def book(state: Order, ctx: StepContext) -> Order:
    ctx.app.book(ctx)
    return state.then("book")


@book.reconcile
def booked(state: Order, ctx: StepContext) -> Any:
    return state.then("book") if ctx.app.booked(ctx) else NotDone


@TASK.step(replay="safe")
def tell(state: Order, ctx: StepContext) -> Order:
    ctx.app.enter(ctx)
    return state.then("tell")


def first(number: int) -> Order:
    return Order(number, [])
