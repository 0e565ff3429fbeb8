"""What the steps of tasks under load do, and where they leave it: a file a task, which no server takes along."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth.models import Group

from django_statestore.durable import StepContext
from tests.crash.ledger import Ledger

PAID = "paid"


@dataclass(frozen=True)
class Outside:
    """What a step finds as ``ctx.app``. A step takes up to ``longest`` seconds."""

    folder: Path
    longest: float

    def ledger(self, task_id: str) -> Ledger:
        return Ledger(self.folder / task_id)

    def enter(self, ctx: StepContext) -> None:
        self.ledger(ctx.task_id).write("entered", ctx.step, ctx.turn, str(ctx.fence))
        time.sleep(random.uniform(0, self.longest))

    def pay(self, ctx: StepContext) -> None:
        """Write a row by the ORM, and one item by a facet, as an atomic step does."""
        self.enter(ctx)
        Group.objects.using(ctx.store.alias).create(name=f"{row_prefix(ctx)}{uuid.uuid4().hex}")
        time.sleep(random.uniform(0, self.longest))
        ctx.store.list.append(PAID, ctx.task_id)

    def book(self, ctx: StepContext) -> None:
        """Do what must happen once, and what only a question can tell of afterwards."""
        self.enter(ctx)
        self.ledger(ctx.task_id).write("effect", ctx.step, ctx.turn)
        time.sleep(random.uniform(0, self.longest))

    def booked(self, ctx: StepContext) -> bool:
        """Return whether it has happened."""
        ledger = self.ledger(ctx.task_id)
        done = bool(ledger.lines("effect"))
        ledger.write("asked", ctx.step, ctx.turn, "done" if done else "not done")
        return done


def row_prefix(ctx: StepContext) -> str:
    return f"{ctx.store.names[-1]} {ctx.task_id} "


def rows_paid(alias: str, namespace: str) -> Iterator[str]:
    """Yield the id of its task for every row that an atomic step has made."""
    rows = Group.objects.using(alias).filter(name__startswith=f"{namespace} ")
    for name in rows.values_list("name", flat=True):
        yield name.split(" ")[1]
