"""The definition of a durable task: its steps, its limits, and how their shape is known again."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from django.utils.functional import cached_property

from .. import codec
from ..exceptions import InvalidDefinition, InvalidKey, InvalidTTL, PayloadInvalid, StateInvalid
from ..keys import check_text
from ..ttl import Duration, milliseconds
from . import registry
from .backoff import Backoff
from .differences import Outline, fingerprint_of
from .migrating import Migration, Migrations
from .states import StateType, state_type

if TYPE_CHECKING:
    from ..contracts.taskrecord import TaskRecord
    from .context import StepContext

S = TypeVar("S")

Replay: TypeAlias = Literal["safe", "reconcile", "atomic"]
StepFunction: TypeAlias = Callable[[S, "StepContext"], Any]

SPARE_ATTEMPTS = 5
MAX_TURNS = 1000


@dataclass(frozen=True, slots=True)
class ModelBudget:
    """Allow a task ``max_calls`` model calls in all, and each attempt of a step ``per_attempt`` of them."""

    max_calls: int
    per_attempt: int

    def __post_init__(self) -> None:
        for name in ("max_calls", "per_attempt"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidDefinition(f"ModelBudget.{name}", "must be a whole number above zero")
        if self.per_attempt > self.max_calls:
            raise InvalidDefinition("ModelBudget.per_attempt", "is more than max_calls")


class Step(Generic[S]):
    """Be one step of a definition. Its name is that of its function."""

    def __init__(
        self, where: str, function: StepFunction[S], replay: Replay, model_calls: int, timeout: float | None
    ) -> None:
        self.name: str = function.__name__
        self.function = function
        self.replay = replay
        self.model_calls = model_calls
        self.timeout = timeout
        """Seconds, or None."""
        self.reconciler: StepFunction[S] | None = None
        self._where = f"{where}, step {self.name!r}"

    def __repr__(self) -> str:
        return f"<Step {self.name} {self.replay}>"

    def __call__(self, state: S, ctx: StepContext) -> Any:
        """Call the function itself: a step stays testable on its own."""
        return self.function(state, ctx)

    def reconcile(self, function: StepFunction[S]) -> StepFunction[S]:
        """Declare the function that asks whether an interrupted run of this step took effect.

        It returns the new state (it did), ``NotDone`` (it did not: the step is entered again), or raises (it cannot
        tell yet: it is asked again later). It never runs the effect itself.
        """
        if self.replay != "reconcile":
            raise InvalidDefinition(self._where, f"has replay={self.replay!r}, which is never reconciled")
        if self.reconciler is not None:
            raise InvalidDefinition(self._where, "has two reconcile functions")
        self.reconciler = function
        return function


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Hold the checked limits of a definition; durations are milliseconds."""

    deadline: int
    retention: int | None
    max_attempts: int | None
    max_turns: int


class Definition(Generic[S]):
    """Hold what the engine needs to know of a durable task."""

    def __init__(
        self,
        id: str,
        *,
        revision: str,
        deadline: Duration,
        state: type[S] | None = None,
        is_state: Callable[[Any], bool] | None = None,
        model_budget: ModelBudget | None = None,
        store: str = "default",
        queue: str | None = None,
        backoff: Backoff | None = None,
        max_attempts: int | None = None,
        max_turns: int = MAX_TURNS,
        retention: Duration | None = None,
        app: Any = None,
    ) -> None:
        self.where = f"durable task {id!r}"
        for what, text in (("id", id), ("revision", revision)):
            try:
                check_text(text, what)
            except InvalidKey as error:
                raise InvalidDefinition(self.where, str(error)) from None
        self.id, self.revision, self.store_alias, self.queue, self.app = id, revision, store, queue, app
        self.model_budget = model_budget
        self.backoff = backoff or Backoff()
        self.limits = self._limits(deadline, retention, max_attempts, max_turns)
        self.state_type: StateType[S] = state_type(state, is_state, where=self.where)
        self.migrations = Migrations(self.where, revision)
        self._declared: list[Step[S]] = []
        self._sealed = False
        self.module = str(sys._getframe(1).f_globals.get("__name__", ""))
        registry.register(self)

    def __repr__(self) -> str:
        return f"<DurableTask {self.id} revision={self.revision!r}>"

    def _limits(
        self, deadline: Duration, retention: Duration | None, max_attempts: int | None, max_turns: int
    ) -> Limits:
        for name, value in (("max_attempts", max_attempts), ("max_turns", max_turns)):
            whole = isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31
            if not whole and not (name == "max_attempts" and value is None):
                raise InvalidDefinition(self.where, f"{name} must be a whole number above zero")
        try:
            return Limits(
                deadline=milliseconds(deadline, "deadline"),
                retention=None if retention is None else milliseconds(retention, "retention"),
                max_attempts=max_attempts,
                max_turns=max_turns,
            )
        except InvalidTTL as error:
            raise InvalidDefinition(self.where, str(error)) from None

    def step(
        self, *, replay: Replay, model_calls: int = 0, timeout: Duration | None = None
    ) -> Callable[[StepFunction[S]], Step[S]]:
        """Declare the next step. ``replay`` says what to do with a run of it that was interrupted.

        ``"safe"``: run it again. ``"reconcile"``: ask its reconcile function first. ``"atomic"``: run it again; it runs
        in a transaction on the store's database, which is committed with its state or not at all. ``model_calls`` are
        reserved durably before the step runs and must fit the budget's ``per_attempt``. Past ``timeout`` (seconds)
        ``ctx.check()`` raises ``StepTimeout``.
        """
        if replay not in ("safe", "reconcile", "atomic"):
            raise InvalidDefinition(self.where, f"replay is {replay!r}; it must be 'safe', 'reconcile' or 'atomic'")
        if not isinstance(model_calls, int) or isinstance(model_calls, bool) or model_calls < 0:
            raise InvalidDefinition(self.where, "model_calls must be a whole number, zero or more")
        try:
            seconds = None if timeout is None else milliseconds(timeout, "timeout") / 1000
        except InvalidTTL as error:
            raise InvalidDefinition(self.where, str(error)) from None

        def declare(function: StepFunction[S]) -> Step[S]:
            step = Step(self.where, function, replay, model_calls, seconds)
            if step.name.split() != [step.name] or ":" in step.name:
                raise InvalidDefinition(self.where, f"step {step.name!r} has a name with a space or colon in it")
            if replay == "atomic" and inspect.iscoroutinefunction(function):
                raise InvalidDefinition(
                    self.where, f"step {step.name!r} is async: a transaction is for blocking code, so make it a def"
                )
            if self._sealed:
                raise InvalidDefinition(self.where, f"step {step.name!r} comes after the definition was first used")
            if any(step.name == other.name for other in self._declared):
                raise InvalidDefinition(self.where, f"has two steps named {step.name!r}")
            if model_calls and self.model_budget is None:
                raise InvalidDefinition(self.where, f"step {step.name!r} makes model calls: give it a model_budget")
            if self.model_budget and model_calls > self.model_budget.per_attempt:
                raise InvalidDefinition(
                    self.where, f"step {step.name!r} makes more model calls than per_attempt allows"
                )
            self._declared.append(step)
            return step

        return declare

    def migrate(self, source: str, target: str) -> Callable[[Migration], Migration]:
        """Declare the function that carries tasks of the revision ``source`` over to ``target``.

        It is given the old state as a plain value, and the name of the step that is open or comes next (None: none is
        left). It returns the new state, plain or not, for a task that stays at the step of that name, or ``Moved``.
        Functions are chained; they only ever run where an operator migrates a task.
        """

        def declare(function: Migration) -> Migration:
            if self._sealed:
                raise InvalidDefinition(self.where, "a migration comes after the definition was first used")
            self.migrations.add(source, target, function)
            return function

        return declare

    def seal(self) -> None:
        """Check the definition as a whole; from now on it does not change. Called before its first use."""
        if not self._declared:
            raise InvalidDefinition(self.where, "has no steps")
        for step in self._declared:
            if step.replay == "reconcile" and step.reconciler is None:
                raise InvalidDefinition(
                    self.where, f"step {step.name!r} lacks its function: add @{step.name}.reconcile"
                )
        given = self.limits.max_attempts
        if given is not None and given < len(self._declared):
            raise InvalidDefinition(self.where, f"allows {given} attempts for {len(self._declared)} steps")
        self.migrations.check()
        self._sealed = True

    @cached_property
    def steps(self) -> tuple[Step[S], ...]:
        """Return the steps in order, sealing the definition."""
        self.seal()
        return tuple(self._declared)

    @cached_property
    def max_attempts(self) -> int:
        """Return the attempts of a new task: as given, else one a step and a few to spare."""
        given = self.limits.max_attempts
        return len(self.steps) + SPARE_ATTEMPTS if given is None else given

    @cached_property
    def outline(self) -> Outline:
        """Return the names and replay policies of the steps, in order."""
        return [(step.name, step.replay) for step in self.steps]

    @cached_property
    def fingerprint(self) -> str:
        """Return a digest of id, revision, and the names and replay policies of the steps, and then these in words."""
        return fingerprint_of(self.id, self.revision, self.outline)

    def encode(self, state: Any) -> str:
        """Return the payload of a state; ``StateInvalid`` or ``ValueNotSerializable`` names what is wrong with it."""
        return codec.dumps(self.state_type.dump(state))

    def encode_any(self, value: Any) -> str:
        """Return the payload of a state that is given as such, or as its plain value."""
        try:
            return self.encode(value)
        except StateInvalid as error:
            if not isinstance(value, dict):
                raise
            plain_as_given = error
        try:
            return self.encode(self.state_type.load(value))
        except StateInvalid as error:
            raise error from plain_as_given

    def decode(self, payload: str | None) -> S:
        """Return the state of a payload; ``StateInvalid`` says why this definition does not accept it."""
        if payload is None:
            raise StateInvalid("no state was ever saved")
        try:
            return self.state_type.load(codec.loads(payload))
        except PayloadInvalid as error:
            raise StateInvalid(str(error)) from error

    def step_name(self, index: int) -> str:
        """Return the name of a step for messages, also where the index is one of other code."""
        return self.steps[index].name if 0 <= index < len(self.steps) else f"number {index + 1}"

    def name_of(self, record: TaskRecord) -> str | None:
        """Return the name of the step that is open or comes next; None: the task has completed, or no step is left."""
        over = record.status == "completed" or record.step_index == len(self.steps)
        return None if over else self.step_name(record.step_index)
