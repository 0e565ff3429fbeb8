"""Tasks whose steps do what the process that drives them says."""

import functools
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group
from django.db import connections

from django_statestore import Store
from django_statestore.contracts.checkpoint import Checkpoint
from django_statestore.durable import Backoff, DurableTask, Finish, NotDone, StepContext, WaitFor
from tests.aliases import DATABASES
from tests.crash.journey import Trip


def not_done(ctx: StepContext) -> bool:
    return False


@dataclass(frozen=True)
class Script:
    """What steps find as `ctx.app`: what each does before it returns, and what reconcile answers."""

    on: Mapping[str, Callable[[StepContext], object]] = field(default_factory=dict)
    asked: Callable[[StepContext], bool] = not_done

    def play(self, state: Trip, ctx: StepContext) -> Trip:
        self.act(ctx)
        return state.and_then(ctx.step)

    def act(self, ctx: StepContext) -> None:
        if ctx.step in self.on:
            self.on[ctx.step](ctx)


SCRIPT_END = Trip(["begin", "act", "end"])


def _make(alias: str) -> DurableTask[Trip]:
    task = DurableTask(
        f"crash.scripted.{alias}",
        revision="1",
        deadline=timedelta(days=30),
        state=Trip,
        store=alias,
        max_attempts=20,
        backoff=Backoff(first=30),
        app=Script(),
    )

    @task.step(replay="safe")
    def begin(state: Trip, ctx: StepContext) -> Trip:
        script: Script = ctx.app
        return script.play(state, ctx)

    @task.step(replay="reconcile")
    def act(state: Trip, ctx: StepContext) -> Trip:
        script: Script = ctx.app
        return script.play(state, ctx)

    @act.reconcile
    def acted(state: Trip, ctx: StepContext) -> Any:
        return state.and_then("act") if ctx.app.asked(ctx) else NotDone

    @task.step(replay="safe")
    def end(state: Trip, ctx: StepContext) -> Trip:
        script: Script = ctx.app
        return script.play(state, ctx)

    task.seal()
    return task


def _make_single(alias: str) -> DurableTask[Trip]:
    task = DurableTask(f"crash.single.{alias}", revision="1", deadline=timedelta(days=30), state=Trip, store=alias)

    @task.step(replay="safe")
    def once(state: Trip, ctx: StepContext) -> Trip:
        script: Script = ctx.app
        return script.play(state, ctx)

    task.seal()
    return task


WIDE_END = Trip(["call", "seal", "rest", "close"])


def _make_wide(alias: str) -> DurableTask[Trip]:
    """Define a task of a call and an item, an atomic step, a wait for the signal ``go``, and an early end."""
    task = DurableTask(
        f"crash.wide.{alias}",
        revision="1",
        deadline=timedelta(days=30),
        state=Trip,
        store=alias,
        max_attempts=20,
        backoff=Backoff(first=30),
        app=Script(),
    )

    @task.step(replay="safe")
    def call(state: Trip, ctx: StepContext) -> Trip:
        script: Script = ctx.app
        ctx.call("call", functools.partial(script.act, ctx))
        ctx.append("items", os.getpid())
        return state.and_then(ctx.step)

    @task.step(replay="atomic")
    def seal(state: Trip, ctx: StepContext) -> Trip:
        script: Script = ctx.app
        Group.objects.using(ctx.store.alias).create(name=f"{seal_name(ctx.store, ctx.task_id)} by {uuid.uuid4().hex}")
        return script.play(state, ctx)

    @task.step(replay="safe")
    def rest(state: Trip, ctx: StepContext) -> WaitFor[Trip]:
        script: Script = ctx.app
        return WaitFor(script.play(state, ctx), "go")

    @task.step(replay="safe")
    def close(state: Trip, ctx: StepContext) -> Finish[Trip]:
        script: Script = ctx.app
        return Finish(script.play(state, ctx))

    @task.step(replay="safe")
    def never(state: Trip, ctx: StepContext) -> Trip:
        script: Script = ctx.app
        return script.play(state, ctx)

    task.seal()
    return task


def seal_name(store: Store, task_id: str) -> str:
    """Return how the names of the groups begin that the atomic step of a wide task makes."""
    return f"{store.names[-1][:12]} {task_id}"


def _make_frail(alias: str) -> DurableTask[Trip]:
    task = DurableTask(
        f"crash.frail.{alias}", revision="1", deadline=timedelta(days=30), state=Trip, store=alias, max_attempts=3
    )

    @task.step(replay="atomic")
    def frail(state: Trip, ctx: StepContext) -> Trip:
        script: Script = ctx.app
        return script.play(state, ctx)

    task.seal()
    return task


SCRIPTED = {alias: _make(alias) for alias in DATABASES}
FRAIL = {alias: _make_frail(alias) for alias in DATABASES}
"""A task of one atomic step and three attempts."""
WIDE = {alias: _make_wide(alias) for alias in DATABASES}
SINGLE = {alias: _make_single(alias) for alias in DATABASES}

FOREIGN = Checkpoint(
    definition_id="foreign",
    revision="1",
    next_step_index=1,
    attempt_count=0,
    max_attempts=9,
    deadline_at_ms=4_000_000_000_000,
    status="running",
    state="",
)
"""The checkpoint of an engine that is not ours."""

_PARTS = ("statestore_snapshot", "statestore_journal", "statestore_mailbox", "statestore_spool_use")


def rows_of(store: Store, task_id: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return every column of every row that belongs to a task, as the database holds it."""
    digest = store.durable.entry(task_id).digest
    with connections[store.alias].cursor() as cursor:
        cursor.execute("select * from statestore_task where digest = %s", [digest])
        rows = {"statestore_task": _plain(cursor.fetchall())}
        for table in _PARTS:
            of_task = f"select * from {table} where task_id = (select id from statestore_task where digest = %s)"
            cursor.execute(f"{of_task} order by id", [digest])
            rows[table] = _plain(cursor.fetchall())
    return rows


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in rows]
