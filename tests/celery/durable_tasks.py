"""Durable tasks that note in a file each time a step is entered: a ledger that no database can roll back."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from django_statestore.durable import Backoff, DurableTask, StepContext

BACKLOG = "backlog"
"""A queue that no worker reads."""


@dataclass(frozen=True)
class Errand:
    """Name the folder of the ledger."""

    folder: str

    def note(self, ctx: StepContext) -> None:
        with Path(self.folder, "ledger").open("a") as ledger:
            ledger.write(f"{ctx.step} {ctx.attempt} {os.getpid()}\n")

    @property
    def noted(self) -> list[str]:
        """Return the steps that were entered, each with its attempt, in order."""
        return [line.rpartition(" ")[0] for line in self._lines]

    @property
    def pids(self) -> list[int]:
        return [int(line.rpartition(" ")[2]) for line in self._lines]

    @property
    def _lines(self) -> list[str]:
        ledger = Path(self.folder, "ledger")
        return ledger.read_text().splitlines() if ledger.exists() else []

    def let_go(self) -> None:
        """Let the step that waits go on, and those that come to wait."""
        Path(self.folder, "go").touch()

    def wait(self) -> None:
        for _ in range(1500):
            if Path(self.folder, "go").exists():
                return
            time.sleep(0.02)
        raise TimeoutError


Task = DurableTask[Errand]


def plain(alias: str) -> Task:
    """Two steps, nothing else."""
    task = DurableTask(f"tests.plain.{alias}", revision="1", state=Errand, deadline=3600, store=alias)

    @task.step(replay="safe")
    def first(state: Errand, ctx: StepContext) -> Errand:
        state.note(ctx)
        return state

    @task.step(replay="safe")
    def second(state: Errand, ctx: StepContext) -> Errand:
        state.note(ctx)
        return state

    return task


def waiting(alias: str) -> Task:
    """The second of three steps takes until the test lets it go."""
    task = DurableTask(f"tests.waiting.{alias}", revision="1", state=Errand, deadline=3600, store=alias)

    @task.step(replay="safe")
    def before(state: Errand, ctx: StepContext) -> Errand:
        state.note(ctx)
        return state

    @task.step(replay="safe")
    def middle(state: Errand, ctx: StepContext) -> Errand:
        state.note(ctx)
        state.wait()
        return state

    @task.step(replay="safe")
    def after(state: Errand, ctx: StepContext) -> Errand:
        state.note(ctx)
        return state

    return task


def failing(alias: str) -> Task:
    """The only step fails at first, and is entered again an hour later."""
    task = DurableTask(
        f"tests.failing.{alias}",
        revision="1",
        state=Errand,
        deadline=86_400,
        store=alias,
        backoff=Backoff(first=3600, longest=3600),
    )

    @task.step(replay="safe")
    def fragile(state: Errand, ctx: StepContext) -> Errand:
        state.note(ctx)
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return state

    return task


def backlogged(alias: str) -> Task:
    """A task whose messages nobody reads."""
    task = DurableTask(
        f"tests.backlogged.{alias}", revision="1", state=Errand, deadline=86_400, store=alias, queue=BACKLOG
    )

    @task.step(replay="safe")
    def only(state: Errand, ctx: StepContext) -> Errand:
        return state

    return task


def on_each_store(make: Callable[[str], Task]) -> dict[str, Task]:
    return {alias: make(alias) for alias in settings.STATESTORES}


PLAIN = on_each_store(plain)
WAITING = on_each_store(waiting)
FAILING = on_each_store(failing)
BACKLOGGED = on_each_store(backlogged)
