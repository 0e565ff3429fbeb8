"""Workers that may be stopped between any two of their actions, to go on later or never, and what they run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from django_statestore.contracts.position import Position
from django_statestore.contracts.taskrecord import TaskRecord
from django_statestore.contracts.tasks import Committed
from django_statestore.durable import (
    Backoff,
    Cancelled,
    DeadlinePassed,
    DurableTask,
    Fail,
    Finish,
    ModelBudget,
    NotDone,
    Repeat,
    Sleep,
    StepContext,
    WaitFor,
    points,
)
from django_statestore.durable.drive import Drive
from django_statestore.durable.place import Place
from django_statestore.exceptions import LeaseLost, StateInvalid, StepTimeout, TaskBusy
from django_statestore.flow import Action
from django_statestore.testing import Crashed

from .durable_model import (
    BACKOFF,
    BACKOFF_FACTOR,
    BACKOFF_LONGEST,
    DEADLINE,
    MAX_ATTEMPTS,
    MAX_CALLS,
    MAX_TURNS,
    At,
    Step,
    TaskModel,
)
from .durable_outcomes import Outcome

if TYPE_CHECKING:
    from .test_durable import DurableMachine

STEPS = [Step("one", "safe"), Step("two", "reconcile"), Step("three", "safe", 2), Step("four", "atomic")]


class Boom(Exception):
    """Be what a step raises."""


def define(id: str, alias: str, steps: list[Step]) -> DurableTask[int]:
    """Return a definition whose steps do what the worker that drives them says. Its state is a number."""
    task: DurableTask[int] = DurableTask(
        id,
        revision="1",
        deadline=DEADLINE * 60,
        is_state=lambda value: isinstance(value, int),
        model_budget=ModelBudget(MAX_CALLS, per_attempt=2),
        store=alias,
        backoff=Backoff(BACKOFF * 60, BACKOFF_LONGEST * 60, BACKOFF_FACTOR),
        max_attempts=MAX_ATTEMPTS,
        max_turns=MAX_TURNS,
    )

    def function(step: Step, *, reconciling: bool) -> Callable[[int, StepContext], Any]:
        def run(state: int, ctx: StepContext) -> Any:
            worker: Worker = ctx.app
            return worker.does(step, state, ctx, reconciling=reconciling)

        run.__name__ = step.name
        return run

    for step in steps:
        declared = task.step(replay=step.replay, model_calls=step.calls)(function(step, reconciling=False))
        if step.replay == "reconcile":
            declared.reconcile(function(step, reconciling=True))
    return task


class Watched(Action[Any]):
    """Do an action of the store, and tell the worker what came of it."""

    def __init__(self, action: Action[Any], told: Callable[[Any], None]) -> None:
        self._action, self._told = action, told

    def run(self) -> Any:
        reply = self._action.run()
        self._told(reply)
        return reply

    async def arun(self) -> Any:
        raise NotImplementedError


class Watch:
    """Be the primitives of a store, under the eyes of one worker."""

    def __init__(self, tasks: Any, told: Callable[..., None]) -> None:
        self._tasks, self._told = tasks, told

    def __getattr__(self, name: str) -> Any:
        primitive = getattr(self._tasks, name)
        if not name.startswith("task_"):
            return primitive

        def watched(*args: Any, **kwargs: Any) -> Watched:
            return Watched(primitive(*args, **kwargs), lambda reply: self._told(name, reply, *args, **kwargs))

        return watched


class Worker:
    """Drive one task by a script; whatever it writes, the model says first what must come of it."""

    def __init__(self, machine: DurableMachine, key: str, script: list[Outcome]) -> None:
        self.machine, self.key, self.script = machine, key, script
        watched: Any = Watch(machine.engine, self.told)
        place = Place(machine.store, watched, machine.store.durable.entry(key), machine.task)
        drive: Drive[int] = Drive(machine.task, place, app=self, stopping=lambda: not self.script)
        self._flow: Generator[Action[Any], Any, TaskRecord] = drive.run()
        self._reply: Any = None
        self._error: BaseException | None = None
        self._did = Outcome("next")
        self._reconciling = self._unentered = self._stale = self._fresh = self._was_over = self._saved = False
        self._last = ""
        self._expected: tuple[Any, ...] = ()
        self.over = False

    def __repr__(self) -> str:
        return f"Worker({self.key})"

    # -- how far it goes ----------------------------------------------------------------------------------------------

    def go(self, actions: int | None) -> None:
        """Do so many actions, or all that are left."""
        self._fresh = False
        points.watchers.append(self._watch)
        try:
            while not self.over and (actions is None or actions > 0):
                self._one()
                actions = None if actions is None else actions - 1
        finally:
            points.watchers.remove(self._watch)

    def die(self) -> None:
        self._flow.close()
        self.over = True

    def _one(self) -> None:
        try:
            action = self._flow.throw(self._error) if self._error else self._flow.send(self._reply)
        except AssertionError:
            raise
        except BaseException as error:
            self.over = True
            self._ended(error)
            return
        self._reply = self._error = None
        try:
            self._reply = action.run()
        except AssertionError:
            raise
        except BaseException as error:
            self._error = error
        self._fresh = True
        if not isinstance(action, Watched):
            self._last = ""

    def _watch(self, point: str, step: str) -> None:
        if point == self._did.dies and point != "entered":
            self._did.dies = ""
            raise Crashed

    def _ended(self, how: BaseException) -> None:
        """Judge why the drive ended, where it ended because of what it has just read."""
        if isinstance(how, (Crashed, Boom, StateInvalid, StepTimeout)):
            assert isinstance(how, Crashed) or self._did.kind in ("raise", "refused", "deadline")
            return
        if isinstance(how, LeaseLost):
            assert self._stale, "a lease was lost that nobody took"
            return
        assert isinstance(how, (StopIteration, TaskBusy)), repr(how)
        model = self.machine.models.get(self.key)
        if self.script and self._fresh and self._last == "task_read" and model is not None:
            if isinstance(how, TaskBusy):
                assert model.decision == "busy"
            elif model.parked and model.held:
                pass
            else:
                unsure = ["wait again"] if model.due is None else []
                unsure += ["busy"] if self._saved else []  # another took up at once what it has just left
                assert model.decision in ("finished", "parked", "rest", *unsure), f"it must {model.decision}"

    # -- the functions of its steps -----------------------------------------------------------------------------------

    def does(self, step: Step, state: int, ctx: StepContext, *, reconciling: bool) -> Any:
        """Be the function of a step, or its reconcile."""
        model = self.machine.models.get(self.key)
        assert reconciling is self._reconciling, "reconcile comes first, and only where the step was interrupted"
        received = None if ctx.received is None else ctx.received.payload
        found = (step.name, state, ctx.turn, ctx.attempt, received)
        assert found == self._expected
        stale = model is None or model.fence != ctx.fence
        self._did = did = self.script.pop(0) if self.script else Outcome("next", state=self.machine.next_value())
        if not stale and model is not None:
            assert ctx.items("item") == [value for _, value in model.items]
            model.entries += not reconciling
            assert model.entries <= model.attempts
        if reconciling and not did.done:
            return NotDone
        for number in range(did.calls):
            self._call(ctx, model, number, keeps=not reconciling and step.replay != "atomic", stale=stale)
        did.spends = 0 if reconciling else min(did.spends, step.calls)
        for _ in range(did.spends):
            ctx.spend_model_call()
        for _ in range(did.appends):
            ctx.append("item", did.state)
        return self._outcome(did)

    def _call(self, ctx: StepContext, model: TaskModel | None, number: int, *, keeps: bool, stale: bool) -> None:
        made = []

        def call(number: int) -> int:
            made.append(self.machine.next_value())
            return made[-1]

        before = dict(model.kept_calls) if model is not None and keeps else {}
        known = before.get(("look", number + 1))
        got = ctx.call("look", call, number)
        if not stale:
            assert (got, bool(made)) == (made[0] if known is None else known, known is None), "a call is made once"
            if keeps and known is None and model is not None:
                model.kept_calls["look", number + 1] = got

    def _outcome(self, did: Outcome) -> Any:
        seconds = None if did.delay is None else did.delay * 60
        match did.kind:
            case "repeat":
                return Repeat(did.state, delay=seconds)
            case "repeat wait":
                return Repeat(did.state, wait_for=did.name, timeout=seconds)
            case "sleep":
                assert seconds is not None
                return Sleep(did.state, seconds)
            case "wait":
                return WaitFor(did.state, did.name, timeout=seconds)
            case "finish":
                return Finish(did.state)
            case "fail":
                return Fail("code")
            case "raise":
                raise Boom
            case "refused":
                return "no state"
            case "cancelled":
                raise Cancelled
            case "deadline":
                raise DeadlinePassed
        return did.state

    # -- what it writes -----------------------------------------------------------------------------------------------

    def told(self, name: str, reply: Any, *args: Any, **kwargs: Any) -> None:
        """Compare what a primitive answered with what it must."""
        self._last = name
        if name == "task_read":
            self._was_over = self.key in self.machine.models and self.machine.models[self.key].over
        judge = getattr(self, f"_{name}", None)
        if judge is None:
            return
        at: Position = args[0]
        model = self.machine.at(at.task)
        if model is None:
            assert not reply, f"{name} found a row that is gone"
            self._stale = True
            return
        judge(model, (at.fence, at.save_seq), reply, *args[1:], **kwargs)
        self.machine.compare(model)

    def _expect(self, model: TaskModel) -> None:
        received = None if model.received is None else model.received.payload
        attempt = model.attempts - model.saved_attempts
        self._expected = (model.step.name, model.state, model.turn, attempt, received)

    def _task_claim(
        self, model: TaskModel, at: At, reply: Any, worker: str, lease: int, *, enter: bool, calls: int, waking: Any
    ) -> None:
        signals = None if waking is None else waking.signal_seq
        receives = waking is not None and waking.received is not None
        taken = model.claim(at, enter=enter, signals=signals, receives=receives)
        assert (reply is not None) is taken, f"a claim must {'' if taken else 'not '}succeed"
        if taken:
            assert calls == (model.step.calls if enter else 0)
            self._reconciling, self._unentered, self._stale = not enter, False, False
            self.machine.note(Position(model.row, reply.fence, model.save))
            self._expect(model)

    def _task_enter(self, model: TaskModel, at: At, reply: Any, *, calls: int) -> None:
        entered = model.enter(at)
        assert (reply is not None) is entered, f"a step must {'' if entered else 'not '}be entered"
        self._unentered, self._reconciling = not entered, False
        self._stale = at != model.at
        if entered:
            self._expect(model)

    def _task_commit(self, model: TaskModel, at: At, reply: Committed | None, save: Any) -> None:
        saved = model.commit(at, self._did, stops=not self.script, reconciled=self._reconciling)
        assert (reply is not None) is saved, f"a save must {'' if saved else 'not '}be accepted"
        self._stale, self._saved = not saved, self._saved or saved
        if reply is not None:
            assert (reply.status, reply.reason) == (model.status, model.reason)
            self._reconciling = False
            if model.status == "running":
                self._expect(model)
                self.machine.note(Position(model.row, reply.fence, model.save))

    def _task_atomic(self, model: TaskModel, at: At, reply: Committed | None, work: Any) -> None:
        self._task_commit(model, at, reply, None)

    def _task_fail(self, model: TaskModel, at: At, reply: Any, failure: Any) -> None:
        if self._unentered:
            recorded = model.leave_unentered(at, None)
        else:
            leaves = "cancelled" if self._did.kind == "cancelled" else ""
            if self._did.kind == "deadline" and self._was_over:  # only the store says that a deadline is over
                leaves = "deadline_passed"
            recorded = model.fail(at, leaves=leaves, reconciling=self._reconciling)
        assert (reply is not None) is recorded, f"a failure must {'' if recorded else 'not '}be recorded"
        self._stale = not recorded
        if recorded:
            assert reply == model.status

    def _task_journal(self, model: TaskModel, at: At, reply: bool, line: Any) -> None:
        assert reply is (at == model.at)
        self._stale = not reply

    def _task_cancel(self, model: TaskModel, at: At, reply: bool, reason: str) -> None:
        assert reply is model.end(at)

    def _task_park(self, model: TaskModel, at: At, reply: bool, reason: str, *, ready: bool = False) -> None:
        if ready:
            assert reply is model.leave_unentered(at, reason)
            return
        if reply:
            assert model.decision in (f"park: {reason}", "cancel"), f"it must {model.decision}"
        assert reply is model.park(at, reason)

    def _task_restore(self, model: TaskModel, at: At, reply: bool) -> None:
        assert reply is model.restore(at)

    def _task_wait_again(self, model: TaskModel, at: At, reply: bool, signals: int) -> None:
        assert reply is model.wait_again(at, signals)

    def _task_complete(self, model: TaskModel, at: At, reply: bool, waking: Any) -> None:
        assert reply is model.complete(at, None if waking is None else waking.signal_seq)
