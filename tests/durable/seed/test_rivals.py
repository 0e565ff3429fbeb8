"""Several that run one task at once, and one that is killed between its effect and its save."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from django_statestore import Store, stores
from django_statestore.exceptions import TaskBusy
from django_statestore.testing import age
from django_statestore.testing.conformance.calling import at_once
from tests import child
from tests.conftest import IDS
from tests.processes import Processes

from .conftest import SHARED
from .counting import TASK_ID, count_up, demo_checkpoint, is_state, look_up
from .interpreter import Context, SeedTask, Step

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

shared = pytest.mark.parametrize("alias", SHARED, ids=lambda alias: IDS.get(alias, alias), indirect=True)

STEPS = 3


def noted(state: Any, context: Context) -> Any:
    """Leave a line in the file that is the app, as an effect."""
    with Path(context.app).open("a") as log:
        log.write(f"{state['count']}\n")
    return count_up(state, context)


RIVALRY = SeedTask("count", "1", is_state, [Step(str(number), "safe", noted) for number in range(STEPS)])


def compete(number: int, alias: str, names: tuple[str, ...], log: str) -> tuple[str, Any, int]:
    end = RIVALRY.run(TASK_ID, stores[alias].at(names), Context(app=log))
    return end.status, end.state, end.attempt_count


def increment(number: int, alias: str, names: tuple[str, ...], times: int) -> None:
    """Add one to a count that is kept by hand, so many times."""
    durable = stores[alias].at(names).durable
    for _ in range(times):
        with durable.exclusive(TASK_ID):
            checkpoint = durable.load(TASK_ID)
            assert checkpoint is not None
            durable.save(TASK_ID, demo_checkpoint(state={"count": checkpoint.state["count"] + 1}))


@shared
def test_processes_that_run_one_task_do_each_step_once(store: Store, processes: Processes, tmp_path: Path) -> None:
    store.durable.save(TASK_ID, demo_checkpoint())
    log = tmp_path / "log"
    ends = processes.race(2, compete, store.alias, store.names, str(log))
    assert ends == [("completed", {"count": STEPS}, STEPS)] * 2
    assert log.read_text().split() == ["0", "1", "2"]


@shared
def test_processes_lose_no_update_of_each_other(store: Store, processes: Processes) -> None:
    store.durable.save(TASK_ID, demo_checkpoint())
    processes.race(2, increment, store.alias, store.names, 10)
    end = store.durable.load(TASK_ID)
    assert end is not None
    assert end.state == {"count": 20}


def test_threads_that_run_one_task_do_each_step_once(store: Store, tmp_path: Path) -> None:
    store.durable.save(TASK_ID, demo_checkpoint())
    log = tmp_path / "log"
    works: list[Callable[[], Any]] = [partial(compete, n, store.alias, store.names, str(log)) for n in range(4)]
    backend: Any = store.backend
    assert at_once(works, backend.release_thread) == [("completed", {"count": STEPS}, STEPS)] * 4
    assert log.read_text().split() == ["0", "1", "2"]


# -- killed -----------------------------------------------------------------------------------------------------------


class Business:
    """Keep committed results in a folder, as a mapping."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def __contains__(self, key: str) -> bool:
        return (self._folder / key).exists()

    def __getitem__(self, key: str) -> int:
        return int((self._folder / key).read_text())

    def __setitem__(self, key: str, value: int) -> None:
        (self._folder / key).write_text(str(value))


def commit_and_stop(state: Any, context: Context) -> Any:
    business, key = context.app
    assert key not in business, "the effect was repeated"
    business[key] = state["count"] + 1
    child.tell("committed")
    child.wait()
    raise AssertionError("it was to be killed here")


DEADLY = SeedTask("count", "1", is_state, [Step("commit", "reconcile", commit_and_stop, look_up)])


def run_deadly(alias: str, names: tuple[str, ...], folder: str) -> None:
    DEADLY.run(TASK_ID, stores[alias].at(names), Context(app=(Business(folder), TASK_ID)))


@shared
def test_a_process_killed_between_effect_and_save_is_reconciled_once_its_lease_is_over(
    store: Store, processes: Processes, tmp_path: Path
) -> None:
    folder = str(tmp_path)
    store.durable.save(TASK_ID, demo_checkpoint(deadlineAtMs=253_402_300_799_999))
    process = processes.start(run_deadly, store.alias, store.names, folder)
    process.expect("committed")
    process.kill()
    context = Context(app=(Business(folder), TASK_ID))
    left = store.durable.load(TASK_ID)
    assert left is not None
    assert (left.status, left.attempt_count) == ("running", 1)
    with pytest.raises(TaskBusy):  # nobody knows yet that it is dead
        DEADLY.run(TASK_ID, store, context, wait=0)
    age(store, 61)
    end = DEADLY.run(TASK_ID, store, context, wait=0)
    assert (end.status, end.state, end.attempt_count) == ("completed", {"count": 1}, 1)
