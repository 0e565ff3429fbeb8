"""A foreign engine: ``defineDurableTask`` as the contract describes it, by ``exclusive``, ``load`` and ``save`` alone.

It knows nothing of this project's own engine. What a run asks of the store and of the app is written once, as a
generator of requests; ``run`` and ``arun`` answer them.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast

from django_statestore import Store
from django_statestore.contracts.checkpoint import Checkpoint


class Refused(Exception):
    """The checkpoint does not belong to this definition, or allows no more; it was left as it is."""


class Died(BaseException):
    """Stand for the death of a process inside a step."""


@dataclass
class Context:
    """Hold what the app gives to a run."""

    app: Any = None
    aborted: Callable[[], bool] = bool
    calls: int = 0
    """Model calls that this attempt may still make."""

    def model_call(self) -> None:
        if not self.calls:
            raise Refused("this attempt has made all its model calls")
        self.calls -= 1


Function = Callable[[Any, Context], Any]


@dataclass(frozen=True)
class Step:
    id: str
    replay_policy: Literal["safe", "reconcile"]
    run: Function
    reconcile: Function | None = None


class Load(NamedTuple):
    """Ask for the checkpoint."""


class Save(NamedTuple):
    """Ask for it to be replaced."""

    checkpoint: Checkpoint


class Ask(NamedTuple):
    """Ask the app."""

    function: Function
    state: Any
    context: Context


Work = Generator[Load | Save | Ask, Any, Checkpoint]


@dataclass(frozen=True)
class SeedTask:
    """Be what ``defineDurableTask`` returns. ``clock`` gives epoch milliseconds."""

    id: str
    revision: str
    is_state: Callable[[Any], bool]
    steps: list[Step]
    clock: Callable[[], float] = field(default=lambda: time.time() * 1000)

    def run(self, task_id: str, store: Store, context: Context | None = None, *, wait: float = 30) -> Checkpoint:
        """Run or resume the task as far as it goes, under one exclusive lock; return what was saved last."""
        durable = store.durable
        with durable.exclusive(task_id, wait=wait):
            work, answer = self._work(context or Context()), None
            while True:
                try:
                    request = work.send(answer)
                except StopIteration as end:
                    return cast(Checkpoint, end.value)
                if isinstance(request, Load):
                    answer = durable.load(task_id)
                elif isinstance(request, Save):
                    answer = None
                    durable.save(task_id, request.checkpoint)
                else:
                    answer = request.function(request.state, request.context)

    async def arun(self, task_id: str, store: Store, context: Context | None = None, *, wait: float = 30) -> Checkpoint:
        durable = store.durable
        async with durable.exclusive(task_id, wait=wait):
            work, answer = self._work(context or Context()), None
            while True:
                try:
                    request = work.send(answer)
                except StopIteration as end:
                    return cast(Checkpoint, end.value)
                if isinstance(request, Load):
                    answer = await durable.aload(task_id)
                elif isinstance(request, Save):
                    answer = None
                    await durable.asave(task_id, request.checkpoint)
                else:
                    answer = request.function(request.state, request.context)
                    if inspect.isawaitable(answer):
                        answer = await answer

    def _work(self, context: Context) -> Work:
        checkpoint = yield Load()
        checkpoint = self._checked(checkpoint)
        while checkpoint.status in ("ready", "running"):
            if self.clock() >= checkpoint.deadline_at_ms:
                checkpoint = replace(checkpoint, status="cancelled")
                yield Save(checkpoint)
            elif context.aborted():
                break
            else:
                step = self.steps[checkpoint.next_step_index]
                if checkpoint.status == "running" and step.replay_policy == "reconcile":
                    assert step.reconcile is not None
                    state = yield Ask(step.reconcile, checkpoint.state, context)
                else:
                    checkpoint = self._entered(checkpoint, context)
                    yield Save(checkpoint)  # an attempt is spent before the step runs
                    state = yield Ask(step.run, checkpoint.state, context)
                checkpoint = self._advanced(checkpoint, state)
                yield Save(checkpoint)
        return checkpoint

    def _checked(self, checkpoint: Checkpoint | None) -> Checkpoint:
        if checkpoint is None:
            raise Refused("the task was never saved")
        if checkpoint.version != 2 or checkpoint.definition_id != self.id or checkpoint.revision != self.revision:
            raise Refused("the checkpoint is of another version, definition or revision")
        if checkpoint.next_step_index > len(self.steps) or self.is_state(checkpoint.state) is not True:
            raise Refused("the checkpoint has a state or a step that this definition does not know")
        return checkpoint

    def _entered(self, checkpoint: Checkpoint, context: Context) -> Checkpoint:
        if checkpoint.attempt_count >= checkpoint.max_attempts:
            raise Refused("no attempt is left")
        budget = checkpoint.model_budget
        if budget is not None:
            reserved = budget.reserved_calls + budget.max_calls_per_attempt
            if reserved > budget.max_calls:
                raise Refused("the model budget has no room for another attempt")
            budget, context.calls = replace(budget, reserved_calls=reserved), budget.max_calls_per_attempt
        return replace(checkpoint, status="running", attempt_count=checkpoint.attempt_count + 1, model_budget=budget)

    def _advanced(self, checkpoint: Checkpoint, state: Any) -> Checkpoint:
        if self.is_state(state) is not True:
            raise Refused("the step returned no state")
        index = checkpoint.next_step_index + 1
        status: Literal["ready", "completed"] = "completed" if index == len(self.steps) else "ready"
        return replace(checkpoint, status=status, next_step_index=index, state=state)
