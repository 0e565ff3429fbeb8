"""A definition that cannot work is refused where it is written."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_statestore.durable import Backoff, DurableTask, ModelBudget, StepContext
from django_statestore.durable.registry import definition_of, definitions, unregister
from django_statestore.exceptions import InvalidDefinition, UnknownDefinition
from tests.durable.conftest import State


@pytest.fixture
def define() -> Iterator[Callable[..., DurableTask[State]]]:
    before = set(definitions())

    def make(id: str = "define.t", **options: Any) -> DurableTask[State]:
        defaults: dict[str, Any] = {"revision": "1", "deadline": 60, "state": State}
        return DurableTask(id, **(defaults | options))

    yield make
    for definition in set(definitions()) - before:
        unregister(definition)


def step(state: State, ctx: StepContext) -> State:
    return state


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"id": ""}, "id is empty"),
        ({"revision": ""}, "revision is empty"),
        ({"deadline": 0}, "deadline must be more than zero"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_turns": 0}, "max_turns"),
        ({"retention": -1}, "retention"),
        ({"state": None}, "state"),
    ],
    ids=str,
)
def test_bad_options(define: Callable[..., DurableTask[State]], options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidDefinition, match=problem):
        define(**options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"replay": "maybe"}, "replay is 'maybe'"),
        ({"replay": "safe", "model_calls": -1}, "model_calls"),
        ({"replay": "safe", "model_calls": 1}, "give it a model_budget"),
    ],
    ids=str,
)
def test_bad_steps(define: Callable[..., DurableTask[State]], options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidDefinition, match=problem):
        define().step(**options)(step)


def test_more_model_calls_than_an_attempt_may_make(define: Callable[..., DurableTask[State]]) -> None:
    with pytest.raises(InvalidDefinition, match="per_attempt"):
        define(model_budget=ModelBudget(9, per_attempt=2)).step(replay="safe", model_calls=3)(step)


def test_a_definition_as_a_whole(define: Callable[..., DurableTask[State]]) -> None:
    with pytest.raises(InvalidDefinition, match="no steps"):
        define().seal()
    task = define()
    task.step(replay="safe")(step)
    with pytest.raises(InvalidDefinition, match="two steps named 'step'"):
        task.step(replay="safe")(step)
    task = define()
    task.step(replay="reconcile")(step)
    with pytest.raises(InvalidDefinition, match=r"add @step\.reconcile"):
        task.seal()
    task = define(max_attempts=1)
    for name in ("one", "two"):
        task.step(replay="safe")(_named(name))
    with pytest.raises(InvalidDefinition, match="1 attempts for 2 steps"):
        task.seal()


def test_reconcile_functions_belong_to_reconcile_steps_once(define: Callable[..., DurableTask[State]]) -> None:
    safe = define().step(replay="safe")(step)
    with pytest.raises(InvalidDefinition, match="never reconciled"):
        safe.reconcile(step)
    unsure = define().step(replay="reconcile")(step)
    unsure.reconcile(step)
    with pytest.raises(InvalidDefinition, match="two reconcile functions"):
        unsure.reconcile(step)


def test_a_used_definition_takes_no_more_steps(define: Callable[..., DurableTask[State]]) -> None:
    task = define()
    task.step(replay="safe")(step)
    task.seal()
    with pytest.raises(InvalidDefinition, match="first used"):
        task.step(replay="safe")(_named("late"))


def test_the_fingerprint_tells_shapes_apart(define: Callable[..., DurableTask[State]]) -> None:
    def shaped(*steps: tuple[str, str], **options: Any) -> str:
        task = define(**options)
        for name, replay in steps:
            declared = task.step(replay=replay)(_named(name))  # type: ignore[arg-type]
            if replay == "reconcile":
                declared.reconcile(step)
        return task.fingerprint

    shapes = [
        shaped(("a", "safe"), ("b", "safe")),
        shaped(("b", "safe"), ("a", "safe")),
        shaped(("a", "safe"), ("b", "reconcile")),
        shaped(("a", "safe"), ("b", "safe"), revision="2"),
        shaped(("a", "safe"), ("b", "safe"), id="define.u"),
    ]
    assert len(set(shapes)) == len(shapes)
    assert shaped(("a", "safe"), ("b", "safe"), max_attempts=99, deadline=9) == shapes[0]


def test_the_registry_finds_definitions_by_id(define: Callable[..., DurableTask[State]]) -> None:
    task = define()
    assert definition_of("define.t") is task
    with pytest.raises(UnknownDefinition, match=r"define\.nothing"):
        definition_of("define.nothing")


def test_two_modules_cannot_define_one_id(define: Callable[..., DurableTask[State]]) -> None:
    define()
    elsewhere = {"__name__": "elsewhere", "DurableTask": DurableTask, "State": State}
    with pytest.raises(InvalidDefinition, match="elsewhere"):
        exec("DurableTask('define.t', revision='1', deadline=1, state=State)", elsewhere)


def test_a_step_stays_callable_on_its_own(define: Callable[..., DurableTask[State]]) -> None:
    declared = define().step(replay="safe")(step)
    assert declared(State(("x",)), None) == State(("x",))  # type: ignore[arg-type]


def test_backoff_doubles_up_to_its_ceiling() -> None:
    waits = [Backoff(first=1, longest=300).after(failures) for failures in (0, 1, 2, 3, 9, 10, 10**9)]
    assert waits == [1000, 1000, 2000, 4000, 256_000, 300_000, 300_000]
    assert Backoff(first=0.5, factor=1, longest=9).after(50) == 500
    with pytest.raises(InvalidDefinition):
        Backoff(factor=0.5)


@pytest.mark.parametrize("budget", [(0, 1), (1, 0), (1, 2), (True, 1), (1.5, 1)])
def test_bad_budgets(budget: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        ModelBudget(budget[0], per_attempt=budget[1])


def _named(name: str) -> Callable[[State, StepContext], State]:
    def function(state: State, ctx: StepContext) -> State:
        return state

    function.__name__ = name
    return function
