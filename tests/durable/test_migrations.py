"""A task of an old revision is carried over by the migrations of its definition, where an operator says so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from django_statestore.durable import Backoff, DurableTask, Moved, StepContext, WaitFor
from django_statestore.durable.differences import differences, outline_of
from django_statestore.durable.registry import unregister
from django_statestore.exceptions import (
    FingerprintMismatch,
    InvalidDefinition,
    RepairRefused,
    RevisionMismatch,
    StateInvalid,
    StateStoreError,
    TaskBusy,
)
from django_statestore.services import repair
from tests.durable.conftest import Bench

Define = Callable[..., DurableTask[Any]]


@dataclass(frozen=True)
class Old:
    """The state of revision 1."""

    order: str = "7"
    ran: tuple[str, ...] = ()


@dataclass(frozen=True)
class New:
    """The state of later revisions."""

    order: int
    ran: tuple[str, ...] = ()


def keep(state: Any, ctx: StepContext) -> Any:
    return type(state)(state.order, (*state.ran, ctx.step))


@pytest.fixture
def deploy(bench: Bench) -> Define:
    """Deploy a revision in place of the one before it."""

    def deploy(revision: str, state: type[Any], *steps: str, **options: Any) -> DurableTask[Any]:
        if bench.definitions:
            unregister(bench.definitions[-1])
        task: DurableTask[Any] = bench.define("migrate.t", revision=revision, state=state, **options)
        for each in steps:
            name, _, replay = each.partition(":")

            def step(state: Any, ctx: StepContext) -> Any:
                return WaitFor(keep(state, ctx), "answer", timeout=600) if ctx.step == "ask" else keep(state, ctx)

            step.__name__ = name
            declared = task.step(replay=replay or "safe")(step)  # type: ignore[arg-type]
            if replay == "reconcile":
                declared.reconcile(lambda state, ctx: type(state)(state.order, (*state.ran, "reconciled")))
        return task

    return deploy


def started(bench: Bench, task: DurableTask[Any]) -> None:
    bench.start(task, state=Old())  # type: ignore[arg-type]


def migrate(bench: Bench, task: DurableTask[Any], **options: Any) -> Any:
    return bench.call(bench.get(task).migrate, **options)


def to_new(old: dict[str, Any], step: str | None) -> New:
    return New(int(old["order"]), (*old["ran"], f"at {step}"))


def test_a_task_goes_on_at_its_step_with_the_new_state(bench: Bench, deploy: Define) -> None:
    old = deploy("1", Old, "one", "two", "three")
    started(bench, old)
    bench.one_step(old)
    new = deploy("2", New, "zero", "one", "two", "last")
    new.migrate("1", "2")(to_new)
    with pytest.raises(RevisionMismatch, match="step 'three' is gone; step 'zero' is new; step 'last' is new"):
        bench.run(new)
    moved = migrate(bench, new, sender="ann")
    assert (moved.status, moved.step, moved.state) == ("ready", "two", New(7, ("one", "at two")))
    assert (moved.record.revision, moved.record.fingerprint, moved.record.due) == ("2", new.fingerprint, True)
    assert bench.run(new).state.ran == ("one", "at two", "two", "last")
    assert bench.outcomes()[2] == ("", "migrated")
    lines = bench.call(moved.journal)
    assert [(line.name, line.sender, line.value) for line in lines] == [("migrate", "ann", '["1","2"]')]


def test_migrations_are_chained(bench: Bench, deploy: Define) -> None:
    started(bench, deploy("1", Old, "one"))
    new = deploy("3", New, "first")

    @new.migrate("1", "2")
    def rename(old: dict[str, Any], step: str | None) -> Any:
        return Moved({"number": old["order"], "ran": [*old["ran"], f"{step}"]}, step="begin")

    @new.migrate("2", "3")
    def count(old: dict[str, Any], step: str | None) -> Any:
        return Moved({"order": int(old["number"]), "ran": [*old["ran"], f"{step}"]}, step="first")

    moved = migrate(bench, new)
    assert (moved.step, moved.state) == ("first", New(7, ("one", "begin")))
    assert bench.run(new).status == "completed"


def test_an_old_migration_may_return_the_state_of_today(bench: Bench, deploy: Define) -> None:
    started(bench, deploy("1", Old, "one"))
    new = deploy("3", New, "one")
    new.migrate("1", "2")(to_new)
    new.migrate("2", "3")(lambda old, step: {**old, "order": old["order"] + 1})
    assert migrate(bench, new).state == New(8, ("at one",))


def test_a_task_that_waits_goes_on_waiting(bench: Bench, deploy: Define) -> None:
    old = deploy("1", Old, "ask", "hear")
    started(bench, old)
    before = bench.run(old)
    new = deploy("2", New, "ask", "more", "hear")
    new.migrate("1", "2")(to_new)
    after = migrate(bench, new)
    assert (after.waiting, after.step, after.record.due) == (before.waiting, "hear", False)
    assert bench.run(new).waiting is not None
    assert bench.call(after.signal, "answer", 1).record.due
    assert bench.run(new).state.ran == ("ask", "at hear", "hear")


def test_a_task_that_is_moved_to_another_step_forgets_its_wait(bench: Bench, deploy: Define) -> None:
    old = deploy("1", Old, "ask", "hear")
    started(bench, old)
    bench.run(old)
    new = deploy("2", New, "ask", "more", "hear")
    new.migrate("1", "2")(lambda old, step: Moved(New(1), "more"))
    moved = migrate(bench, new)
    assert (moved.waiting, moved.step, moved.record.due) == (None, "more", True)
    assert bench.run(new).state.ran == ("more", "hear")


def test_an_interrupted_step_stays_interrupted_and_is_reconciled(bench: Bench, deploy: Define) -> None:
    old = deploy("1", Old, "pay:reconcile", "tell")
    started(bench, old)
    bench.die(old)
    new = deploy("2", New, "check", "pay:reconcile", "tell")
    new.migrate("1", "2")(to_new)
    assert (migrate(bench, new).status, bench.get(new).step) == ("running", "pay")
    assert bench.run(new).state.ran == ("at pay", "reconciled", "tell")


def test_an_interrupted_step_that_is_left_is_forgotten(bench: Bench, deploy: Define) -> None:
    old = deploy("1", Old, "pay:reconcile", "tell")
    started(bench, old)
    bench.die(old)
    new = deploy("2", New, "check", "pay:reconcile", "tell")
    new.migrate("1", "2")(lambda old, step: Moved(New(1), "tell"))
    assert (migrate(bench, new).status, bench.get(new).step) == ("ready", "tell")
    assert bench.run(new).state.ran == ("tell",)


def test_a_diverged_task_is_taken_up_by_its_migration(bench: Bench, deploy: Define) -> None:
    started(bench, deploy("1", Old, "one"))
    new = deploy("2", New, "one")
    new.migrate("1", "2")(to_new)
    for _ in range(4):
        with pytest.raises(RevisionMismatch):
            bench.run(new)
        bench.age(1300)
    assert bench.get(new).reason == "diverged"
    moved = repair.migrate(bench.store, "t", sender="ann")
    assert (moved.reason, moved.mismatch_since, moved.last_error, moved.due) == ("", None, "", True)


def test_a_task_that_was_waiting_for_its_end_still_does(bench: Bench, deploy: Define) -> None:
    old = deploy("1", Old, "ask")
    started(bench, old)
    bench.run(old)
    new = deploy("2", New, "ask", "more")
    new.migrate("1", "2")(to_new)
    assert migrate(bench, new).record.step_index == 2
    bench.call(bench.get(new).signal, "answer")
    assert (bench.run(new).status, bench.get(new).state.ran) == ("completed", ("ask", "at None"))


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], type[StateStoreError], str]] = {
    "raises": (lambda old, step: old["nothing"], RepairRefused, "from '1' to '2' raised KeyError"),
    "bad-state": (lambda old, step: {"order": "seven"}, StateInvalid, r"\$\.order"),
    "wrong-type": (lambda old, step: Old(), StateInvalid, "New"),
    "unknown-step": (lambda old, step: Moved(New(1), "nowhere"), RepairRefused, "has no step 'nowhere'"),
    "lost-step": (lambda old, step: New(1), RepairRefused, "has no step 'one'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_migration_that_does_not_work_out_changes_nothing(bench: Bench, deploy: Define, case: str) -> None:
    function, error, words = REFUSED[case]
    started(bench, deploy("1", Old, "one"))
    new = deploy("2", New, "uno")
    new.migrate("1", "2")(function if case in ("lost-step", "unknown-step") else _at_uno(function))
    before = bench.rows.everything("t")
    with pytest.raises(error, match=words):
        migrate(bench, new)
    assert bench.rows.everything("t") == before


def _at_uno(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda old, step: Moved(function(old, step), "uno")


@pytest.mark.parametrize("changes", [1, 99], ids=["once", "always"])
def test_a_repair_is_decided_anew_where_the_task_has_changed_meanwhile(
    bench: Bench, deploy: Define, changes: int
) -> None:
    started(bench, deploy("1", Old, "one"))
    new = deploy("2", New, "one")
    calls: list[int] = []

    @new.migrate("1", "2")
    def slow(old: dict[str, Any], step: str | None) -> New:
        calls.append(1)
        if len(calls) <= changes:
            repair.grant(bench.store, "t", attempts=1)
        return New(len(calls))

    if changes == 1:
        assert migrate(bench, new).state == New(2)
    else:
        with pytest.raises(TaskBusy, match="at the task 't'"):
            migrate(bench, new)
    repairs = [line.name for line in bench.call(bench.get(new).journal) if line.name == "migrate"]
    assert repairs == (["migrate"] if changes == 1 else [])


def test_without_a_way_there_is_no_migration(bench: Bench, deploy: Define) -> None:
    old = deploy("1", Old, "one")
    started(bench, old)
    with pytest.raises(RepairRefused, match="at revision '1' already"):
        migrate(bench, old)
    new = deploy("3", New, "one")
    new.migrate("2", "3")(to_new)
    with pytest.raises(RepairRefused, match=r"no migration leads from revision '1' .* @migrate\('1', '3'\)"):
        migrate(bench, new)


def test_steps_that_were_not_noted_must_be_named(bench: Bench, deploy: Define) -> None:
    started(bench, deploy("1", Old, "one"))
    bench.rows.change("t", "fingerprint", "0" * 64)
    new = deploy("2", New, "one")
    new.migrate("1", "2")(to_new)
    with pytest.raises(RepairRefused, match="were not noted"):
        migrate(bench, new)
    new = deploy("2", New, "one")
    new.migrate("1", "2")(lambda old, step: Moved(New(1), "one"))
    assert migrate(bench, new).step == "one"


async def _coroutine(old: Any, step: str | None) -> Any:
    return old


def test_migrations_that_cannot_work_are_refused_at_definition(bench: Bench, deploy: Define) -> None:
    task = deploy("3", New, "one")
    task.migrate("1", "2")(to_new)
    for source, target, function, words in (
        ("1", "3", to_new, "two migrations from revision '1'"),
        ("3", "4", to_new, "leads nowhere new"),
        ("0", "0", to_new, "leads nowhere new"),
        ("", "3", to_new, "is empty"),
        ("0", "3", _coroutine, "is async"),
    ):
        with pytest.raises(InvalidDefinition, match=words):
            task.migrate(source, target)(function)
    with pytest.raises(InvalidDefinition, match="from revision '1' to '2' does not lead to '3'"):
        task.seal()
    task.migrate("2", "1")(to_new)
    with pytest.raises(InvalidDefinition, match="does not lead to '3'"):
        task.seal()
    task = deploy("3", New, "one")
    task.seal()
    with pytest.raises(InvalidDefinition, match="first used"):
        task.migrate("2", "3")(to_new)


# -- how steps differ -------------------------------------------------------------------------------------------------


def test_the_fingerprint_tells_its_steps(deploy: Define) -> None:
    task = deploy("1", Old, "pay:reconcile", "tell")
    digest, _, steps = task.fingerprint.partition(" ")
    assert (len(digest), steps) == (22, "pay:reconcile tell:safe")
    assert outline_of(task.fingerprint) == task.outline == [("pay", "reconcile"), ("tell", "safe")]
    for text in ("", "0" * 64, "short pay:safe", f"{digest} pay"):
        assert outline_of(text) is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (("a", "b"), ("a", "b"), []),
        (("pay:reconcile", "book"), ("pay", "check"), [
            "step 'pay' was reconcile, is safe", "step 'book' is gone", "step 'check' is new",
        ]),
        (("a", "b", "c"), ("b", "a", "d"), [
            "step 'c' is gone", "step 'd' is new", "the order was 'a' 'b', is 'b' 'a'",
        ]),
    ],
    ids=["same", "changed", "order"],
)  # fmt: skip
def test_steps_differ_in_words(deploy: Define, old: tuple[str, ...], new: tuple[str, ...], words: list[str]) -> None:
    before = deploy("1", Old, *old).fingerprint
    assert differences(before, deploy("1", Old, *new)) == words


def test_steps_that_were_not_noted_are_said_to_be_so(bench: Bench, deploy: Define) -> None:
    task = deploy("1", Old, "one")
    assert differences("0" * 64, task) == ["its steps were not noted"]


def test_changed_steps_under_one_revision_are_told_with_the_error(bench: Bench, deploy: Define) -> None:
    started(bench, deploy("1", Old, "one", backoff=Backoff(first=1)))
    changed = deploy("1", Old, "one:reconcile")
    with pytest.raises(FingerprintMismatch, match="step 'one' was safe, is reconcile"):
        bench.run(changed)
    assert "step 'one' was safe, is reconcile" in bench.get(changed).last_error
    with pytest.raises(RepairRefused, match="give the definition a new revision"):
        migrate(bench, changed)
