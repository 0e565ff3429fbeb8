"""The next release: a state with one member more, a new step, and one that has another name now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django_statestore.durable import Backoff, DurableTask, Moved, NotDone, StepContext
from tests.outages.targets import ALIAS


@dataclass(frozen=True)
class Order:
    number: int
    ran: list[str]
    currency: str

    def then(self, step: str) -> Order:
        return Order(self.number, [*self.ran, step], self.currency)


TASK = DurableTask(
    "outages.order",
    revision="2",
    deadline=timedelta(days=1),
    state=Order,
    store=ALIAS,
    backoff=Backoff(first=0.2, longest=1),
)


@TASK.migrate("1", "2")
def with_currency(old: dict[str, Any], step: str | None) -> Order | Moved:
    state = Order(old["number"], old["ran"], "EUR")
    return Moved(state, "inform") if step == "tell" else state


@TASK.step(replay="safe")
def gather(state: Order, ctx: StepContext) -> Order:
    ctx.app.enter(ctx)
    ctx.append("log", state.number)
    return state.then("gather")


@TASK.step(replay="safe")
def check(state: Order, ctx: StepContext) -> Order:
    ctx.app.enter(ctx)
    return state.then("check")


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
def inform(state: Order, ctx: StepContext) -> Order:
    ctx.app.enter(ctx)
    assert state.currency == "EUR"
    return state.then("inform")


def first(number: int) -> Order:
    return Order(number, [], "EUR")
