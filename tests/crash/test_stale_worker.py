"""A worker that is stopped past its lease and goes on after another took over: nothing that it writes is accepted."""

import itertools
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from django.db import connections

from django_statestore import Store, stores
from django_statestore.durable import StepContext
from django_statestore.exceptions import TaskBusy
from django_statestore.testing import age
from tests import child
from tests.crash.forks import LEASE, configure, freeze
from tests.crash.journey import START
from tests.crash.scripted import SCRIPT_END, SCRIPTED, Script, rows_of
from tests.processes import Processes


class Broken(Exception):
    """What a step raises."""


@dataclass(frozen=True)
class Case:
    """One task that is held when its worker is stopped."""

    step: Literal["begin", "act"]
    """The step inside which it is held."""
    ending: Literal["returns", "raises"]
    """How that step ends when the worker goes on."""
    second: Literal["finished", "is in the middle", "failed", "cancelled", "nobody"]
    """What has become of the second worker meanwhile."""

    @property
    def task_id(self) -> str:
        return f"{self.step} {self.ending}, the second {self.second}"


CASES = [
    Case(*values)  # type: ignore[arg-type]
    for values in itertools.product(
        ("begin", "act"), ("returns", "raises"), ("finished", "is in the middle", "failed", "cancelled", "nobody")
    )
]


@dataclass
class Held:
    """What a worker saw of its lease after it went on."""

    renewed: bool
    lost: bool
    outcome: str = ""


def hold(alias: str, namespace: str, case: Case, held: dict[str, Held]) -> None:
    """Drive one task, and hold it inside its step until the parent says go."""

    def inside(ctx: StepContext) -> None:
        ctx.progress(0.25, "the first worker")
        child.tell("inside")
        child.wait()
        ctx.progress(0.99, "a stale worker")
        lease, give_up = ctx._lease, time.monotonic() + 10
        if case.second != "nobody":
            while not lease.refused and time.monotonic() < give_up:
                time.sleep(0.01)  # the renewing thread has gone on too, and asks the store
        held[case.task_id] = Held(renewed=lease.renew_all([lease])[0], lost=lease.refused)
        if case.ending == "raises":
            raise Broken

    try:
        handle = SCRIPTED[alias].run(case.task_id, namespace=[namespace], app=Script(on={case.step: inside}))
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
    task = SCRIPTED[alias]
    if case.second == "finished":
        assert task.run(case.task_id, namespace=[namespace]).state == SCRIPT_END
    elif case.second == "failed":
        with pytest.raises(Broken):
            task.run(case.task_id, namespace=[namespace], app=Script(on={case.step: fail}))
    elif case.second == "cancelled":
        assert task.cancel(case.task_id, namespace=[namespace]).status == "cancelled"


def test_a_stale_worker_writes_nothing(processes: Processes, alias: str) -> None:
    namespace = uuid.uuid4().hex
    store, task = stores[alias].namespace(namespace), SCRIPTED[alias]
    for case in CASES:
        task.start(START, task_id=case.task_id, namespace=[namespace])
    first = processes.start(hold_all, alias, namespace, CASES, 1.0)
    for _ in CASES:
        first.expect("inside")
    freeze(first, alias)
    age(store, LEASE)
    for case in CASES:
        take_over(alias, namespace, case)
    middle = [case for case in CASES if case.second == "is in the middle"]
    second = processes.start(hold_all, alias, namespace, middle, LEASE)
    for _ in middle:
        second.expect("inside")
    before = {case: rows_of(store, case.task_id) for case in CASES}

    first.resume()
    for _ in CASES:
        first.go()
    held = first.result()

    for case in CASES:
        if case.second == "nobody":
            check_accepted(store, case, held[case.task_id])
        else:
            assert held[case.task_id] == Held(renewed=False, lost=True, outcome="LeaseLost"), case
            assert rows_of(store, case.task_id) == before[case], case
    for case in middle:
        with pytest.raises(TaskBusy):
            task.run(case.task_id, namespace=[namespace])
        second.go()
    check_second(store, middle, second.result())


def check_accepted(store: Store, case: Case, held: Held) -> None:
    """A lease that lapsed and was taken by nobody is as good as before."""
    assert held.renewed
    handle = SCRIPTED[store.alias].get(case.task_id, namespace=store.names)
    assert handle.progress == (0.99, "a stale worker")
    if case.ending == "returns":
        assert (held.outcome, handle.status, handle.state) == ("completed", "completed", SCRIPT_END)
    else:
        assert (held.outcome, handle.status, handle.step) == ("Broken", "running", case.step)
        assert "Broken" in handle.last_error


def check_second(store: Store, cases: list[Case], held: dict[str, Any]) -> None:
    for case in cases:
        handle = SCRIPTED[store.alias].get(case.task_id, namespace=store.names)
        assert held[case.task_id].renewed
        if case.ending == "returns":
            assert handle.state == SCRIPT_END
            assert handle.record.attempts == 4  # each step once, and the held one twice
        else:
            assert (held[case.task_id].outcome, handle.step) == ("Broken", case.step)
