"""A worker that is stopped past its lease and goes on after another took over: nothing that it writes is accepted."""

import itertools
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from django.contrib.auth.models import Group
from django.db import connections

from django_statestore import Store, stores
from django_statestore.durable import DurableTask, StepContext, points
from django_statestore.exceptions import TaskBusy
from django_statestore.testing import age
from tests import child
from tests.crash.forks import LEASE, configure, freeze
from tests.crash.journey import START, Trip
from tests.crash.scripted import SCRIPT_END, SCRIPTED, WIDE, WIDE_END, Script, rows_of, seal_name
from tests.processes import Processes


class Broken(Exception):
    """What a step raises."""


@dataclass(frozen=True)
class Case:
    """One task that is held when its worker is stopped."""

    step: Literal["begin", "act", "call", "seal", "rest", "close"]
    """The step inside which it is held."""
    ending: Literal["returns", "raises", "checks"]
    """How that step ends when the worker goes on."""
    second: Literal["finished", "is in the middle", "failed", "cancelled", "waits", "nobody"]
    """What has become of the second worker meanwhile."""

    @property
    def task_id(self) -> str:
        return f"{self.step} {self.ending}, the second {self.second}"

    @property
    def wide(self) -> bool:
        return self.step not in ("begin", "act")

    @property
    def end(self) -> Trip:
        return WIDE_END if self.wide else SCRIPT_END

    def task(self, alias: str) -> DurableTask[Trip]:
        return (WIDE if self.wide else SCRIPTED)[alias]


NARROW_CASES = [
    Case(*values)  # type: ignore[arg-type]
    for values in itertools.product(
        ("begin", "act"), ("returns", "raises"), ("finished", "is in the middle", "failed", "cancelled", "nobody")
    )
]
"""Commit, finish, failure record, renewal and progress."""

WIDE_CASES = [
    Case(step, ending, second)  # type: ignore[arg-type]
    for step, ending in (
        ("call", "returns"),
        ("call", "raises"),
        ("call", "checks"),
        ("seal", "returns"),
        ("seal", "raises"),
        ("rest", "returns"),
        ("close", "returns"),
    )
    for second in ("finished", "is in the middle", "waits", "nobody")
    if second != "waits" or step == "rest"
]
"""The result of a call, an atomic step, the commit of a wait, and an early end."""


@dataclass
class Held:
    """What a worker saw of its lease after it went on; None: it could not see that."""

    renewed: bool | None = None
    lost: bool | None = None
    outcome: str = ""


def hold(alias: str, namespace: str, case: Case, held: dict[str, Held]) -> None:
    """Drive one task, and hold it inside its step until the parent says go."""
    early = case.step == "seal" and alias == "default"  # inside its transaction it would keep SQLite's write lock
    thread = threading.current_thread()

    def before(point: str, step: str) -> None:
        if (point, step, threading.current_thread()) == ("entered", case.step, thread):
            child.tell("inside")
            child.wait()

    def inside(ctx: StepContext) -> None:
        lease, give_up = ctx._lease, time.monotonic() + 10
        if not early:
            ctx.progress(0.25, "the first worker")
            child.tell("inside")
            child.wait()
        ctx.progress(0.99, "a stale worker")
        if not early:
            while (ctx.lost if case.second == "nobody" else not lease.refused) and time.monotonic() < give_up:
                time.sleep(0.01)  # the renewing thread has gone on too, and asks the store
        if early:
            held[case.task_id] = Held()
        else:  # in a transaction only the renewing thread, which has a connection of its own, can ask
            renewed = not lease.refused if case.step == "seal" else lease.renew_all([lease])[0]
            held[case.task_id] = Held(renewed, lease.refused)
        if case.ending == "checks":
            ctx.check()
        if case.ending == "raises":
            raise Broken

    if early:
        points.watchers.append(before)
    try:
        handle = case.task(alias).run(case.task_id, namespace=[namespace], app=Script(on={case.step: inside}))
        held[case.task_id].outcome = handle.status
    except Exception as error:
        held[case.task_id].outcome = type(error).__name__
    finally:
        connections.close_all()


def hold_all(alias: str, namespace: str, cases: list[Case], lease: float) -> dict[str, Held]:
    configure(LEASE=lease)
    held: dict[str, Held] = {}
    threads = [threading.Thread(target=hold, args=(alias, namespace, case, held)) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return held


def fail(ctx: StepContext) -> None:
    raise Broken


def take_over(alias: str, namespace: str, case: Case) -> None:
    """Be the second worker, or whoever ends the task."""
    task = case.task(alias)
    if case.second == "finished":
        assert task.run(case.task_id, namespace=[namespace]).state == case.end
    elif case.second == "waits":
        waiting = task.run(case.task_id, namespace=[namespace]).waiting
        assert waiting is not None and waiting.name == "go"  # noqa: PT018
    elif case.second == "failed":
        with pytest.raises(Broken):
            task.run(case.task_id, namespace=[namespace], app=Script(on={case.step: fail}))
    elif case.second == "cancelled":
        assert task.cancel(case.task_id, namespace=[namespace]).status == "cancelled"


@pytest.mark.parametrize("cases", [NARROW_CASES, WIDE_CASES], ids=["narrow", "wide"])
def test_a_stale_worker_writes_nothing(processes: Processes, alias: str, cases: list[Case]) -> None:
    namespace = uuid.uuid4().hex
    store = stores[alias].namespace(namespace)
    for case in cases:
        task = case.task(alias).start(START, task_id=case.task_id, namespace=[namespace])
        if case.wide and case.second != "waits":
            task.signal("go")
    first = processes.start(hold_all, alias, namespace, cases, 1.0)
    for _ in cases:
        first.expect("inside")
    freeze(first, alias)
    age(store, LEASE)
    for case in cases:
        take_over(alias, namespace, case)
    middle = [case for case in cases if case.second == "is in the middle"]
    second = processes.start(hold_all, alias, namespace, middle, LEASE)
    for _ in middle:
        second.expect("inside")
    before = {case: rows_of(store, case.task_id) for case in cases}

    first.resume()
    for _ in cases:
        first.go()
    held = first.result()

    for case in cases:
        if case.second == "nobody":
            check_accepted(store, case, held[case.task_id])
        else:
            assert held[case.task_id] in (Held(False, True, "LeaseLost"), Held(outcome="LeaseLost")), case
            assert rows_of(store, case.task_id) == before[case], case
    for case in middle:
        with pytest.raises(TaskBusy):
            case.task(alias).run(case.task_id, namespace=[namespace])
        second.go()
    check_second(store, middle, second.result())
    for case in cases:
        if case.wide:
            check_sealed(store, case)


def check_sealed(store: Store, case: Case) -> None:
    """Check that what an atomic step wrote is there once if the step was saved, and else not at all."""
    handle = case.task(store.alias).get(case.task_id, namespace=store.names)
    groups = Group.objects.using(store.alias).filter(name__startswith=f"{seal_name(store, case.task_id)} by ")
    assert groups.count() == ("seal" in handle.state.done), case


def check_accepted(store: Store, case: Case, held: Held) -> None:
    """A lease that lapsed and was taken by nobody is as good as before."""
    assert held.renewed in (True, None)
    handle = case.task(store.alias).get(case.task_id, namespace=store.names)
    assert handle.progress == (0.99, "a stale worker")
    if case.ending != "raises":
        assert (held.outcome, handle.status, handle.state) == ("completed", "completed", case.end)
    else:
        assert (held.outcome, handle.status, handle.step) == ("Broken", "running", case.step)
        assert "Broken" in handle.last_error


def check_second(store: Store, cases: list[Case], held: dict[str, Any]) -> None:
    for case in cases:
        handle = case.task(store.alias).get(case.task_id, namespace=store.names)
        assert held[case.task_id].renewed in (True, None)
        if case.ending != "raises":
            assert handle.state == case.end
            assert handle.record.attempts == len(case.end.done) + 1  # each step once, and the held one twice
        else:
            assert (held[case.task_id].outcome, handle.step) == ("Broken", case.step)
