"""``manage.py statestore_upgrade_check``: what the code at hand could not continue is listed before a deploy."""

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_statestore.durable import DurableTask, StepContext
from django_statestore.durable.registry import unregister
from django_statestore.services.upgrade import stuck_tasks
from tests.durable.conftest import Bench, State, on_databases


@dataclass(frozen=True)
class OtherState:
    """A state that lacks what the other has."""

    total: int


def deploy(bench: Bench, id: str, *steps: str, **options: Any) -> DurableTask[Any]:
    """Deploy a definition in place of the one of the same id."""
    for known in bench.definitions:
        if known.id == id:
            unregister(known)
    task: DurableTask[Any] = bench.define(id, **options)
    for name in steps:

        def step(state: Any, ctx: StepContext) -> Any:
            return state

        step.__name__ = name
        task.step(replay="safe")(step)
    return task


def check(bench: Bench, *options: str) -> tuple[list[str], str]:
    """Run the command; return the lines about this test's tasks, and the error or the last line."""
    output, error = StringIO(), CommandError("")
    where = "/".join((bench.alias, *bench.names))
    try:
        call_command("statestore_upgrade_check", f"--store={bench.alias}", *options, stdout=output)
    except CommandError as raised:
        error = raised
    lines = output.getvalue().splitlines()
    return [line.removeprefix(f"{where}: ") for line in lines if line.startswith(where)], str(error) or lines[-1]


def test_code_that_can_continue_everything_passes(bench: Bench) -> None:
    task = deploy(bench, "check.t", "one", "two")
    for id in ("a", "b"):
        bench.start(task, id)
    assert check(bench) == ([], "this code can continue every open task")


CASES: dict[str, tuple[Callable[[Bench], object], str]] = {
    "gone": (
        lambda bench: unregister(bench.definitions[0]),
        "no installed app defines it; no migration is registered",
    ),
    "revision": (
        lambda bench: deploy(bench, "check.t", "one", "three", revision="2"),
        "it has revision '1', the code has '2'; step 'two' is gone; step 'three' is new; no migration is registered",
    ),
    "migration": (
        lambda bench: deploy(bench, "check.t", "one", "two", revision="2").migrate("1", "2")(lambda old, step: old),
        "it has revision '1', the code has '2'; a migration is registered",
    ),
    "steps": (
        lambda bench: deploy(bench, "check.t", "two", "one"),
        "the steps have changed, but revision '1' has not; the order was 'one' 'two', is 'two' 'one'; no migration is",
    ),
    "state": (
        lambda bench: deploy(bench, "check.t", "one", "two", state=OtherState),
        "its state is not one that the code accepts: $.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_code_cannot_continue_is_listed_with_the_reason(bench: Bench, case: str) -> None:
    change, words = CASES[case]
    task = deploy(bench, "check.t", "one", "two")
    bench.start(task, "open")
    bench.start(task, "ended")
    bench.cancel(task, task_id="ended")
    change(bench)
    lines, last = check(bench)
    assert len(lines) == 1
    assert lines[0].startswith(f"check.t 'open': {words}")
    if case == "migration":
        assert last == "this code can continue every other open task"
    else:
        assert last.startswith("1 open task would stand still")


def test_what_has_a_migration_is_carried_over_when_asked_and_only_then(bench: Bench) -> None:
    task = deploy(bench, "check.t", "one", "two")
    for id in ("a", "b"):
        bench.start(task, id)
    newer = deploy(bench, "check.t", "one", "two", revision="2")
    newer.migrate("1", "2")(lambda old, step: old)
    held = bench.store.durable.claim("b")
    assert held is not None
    assert [line.rpartition("; ")[2] for line in check(bench)[0]] == ["a migration is registered"] * 2
    lines, last = check(bench, "--migrate")
    assert lines[0].endswith("; migrated")
    assert "; not migrated: a worker is at the task 'b'" in lines[1]
    assert last.startswith("1 open task would stand still")
    bench.store.durable.release("b", held.token)
    assert check(bench, "--migrate")[1] == "this code can continue every open task"
    assert [bench.run(newer, id).status for id in ("a", "b")] == ["completed"] * 2
    [repair] = [line for line in bench.get(newer, "a").journal() if line.kind == "repair"]
    assert (repair.name, repair.sender) == ("migrate", "statestore_upgrade_check")


def test_the_command_exits_with_1(bench: Bench) -> None:
    bench.start(deploy(bench, "check.t", "one"))
    deploy(bench, "check.t", "one", revision="2")
    with pytest.raises(CommandError) as raised:
        call_command("statestore_upgrade_check", f"--store={bench.alias}", stdout=StringIO())
    assert raised.value.returncode == 1


def test_what_foreign_engines_keep_is_not_looked_at(bench: Bench) -> None:
    task = deploy(bench, "check.t", "one")
    checkpoint = bench.start(task).checkpoint
    bench.cancel(task)
    bench.store.durable.save("foreign", checkpoint)
    unregister(task)
    assert check(bench)[0] == []


def test_an_unknown_store_is_refused() -> None:
    with pytest.raises(CommandError, match="there is no store 'nowhere'"):
        call_command("statestore_upgrade_check", "--store=nowhere")


@on_databases
@pytest.mark.django_db(databases="__all__")
def test_open_tasks_are_read_page_by_page_and_not_one_by_one(bench: Bench) -> None:
    task = deploy(bench, "check.t", "one")
    for number in range(7):
        bench.start(task, f"t{number}", State(n=number))
    unregister(task)
    with CaptureQueriesContext(connections[bench.alias]) as queries:
        found = [stuck.task_id for stuck in stuck_tasks(bench.alias, page=3)]
    assert found == [f"t{number}" for number in range(7)]
    assert len(queries) == 4, "three pages and the empty one"
