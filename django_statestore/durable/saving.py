"""What a worker saves: how the outcome of a step becomes one commit, and how that is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, Literal, TypeVar

from .. import conf
from ..contracts.position import Position
from ..contracts.tasks import Committed, Save, Wait
from ..exceptions import OutcomeUnknown, StoreUnavailable
from ..flow import Flow
from . import dispatch
from .context import StepContext
from .definition import Definition, Step
from .growth import Growth
from .opening import Opened, calls_of
from .patience import Patience
from .place import Place
from .results import Result

S = TypeVar("S")


class Saving(Generic[S]):
    """Make and send the commits of one drive. ``stops`` tells whether it is to enter no other step."""

    def __init__(self, definition: Definition[S], place: Place, worker: str, stops: Callable[[], bool]) -> None:
        self._definition, self._place, self._worker, self._stops = definition, place, worker, stops
        self._growth = Growth(place.tasks)

    def of(self, opened: Opened[S], step: Step[S], result: Result[S], ctx: StepContext, elapsed: int) -> Flow[Save]:
        """Return what the commit of a result writes."""
        record, steps, settings = opened.record, self._definition.steps, conf.get()
        assert record.state is not None
        failed, wait = result.outcome == "failed", result.wait
        if wait is not None and wait.name:
            signal_seq, found = yield from self._place.tasks.task_look(record.id, wait.name)
            wait = replace(wait, seen=-1 if found else signal_seq)
        stays = result.repeats or failed
        next_index = record.step_index if stays else len(steps) if result.ends else record.step_index + 1
        last = not stays and next_index == len(steps)
        state = record.state if result.payload is None else result.payload
        progress, text = opened.lease.progress
        opened.lease.saving()
        return Save(
            ending="failed" if failed else "wait" if wait else "completed" if last else self._next,
            state=state,
            step=step.name,
            turn=record.turn,
            attempts=record.attempts,
            outcome=result.outcome,
            milliseconds=elapsed,
            worker=self._worker,
            next_index=next_index,
            next_turn=record.turn + 1 if result.repeats else 1,
            more_attempts=int(result.repeats and record.turn < self._definition.limits.max_turns),
            refund=ctx.calls_left,
            calls=0 if last or failed or wait else calls_of(steps[next_index], record),
            lease=settings.lease,
            notify=self._notify(wait),
            reason=result.reason,
            progress=progress,
            progress_text=text,
            forget_through=(yield from self._growth.forget(record, len(state))),
            last=last,
            wait=wait,
            items=() if failed else ctx.appended,
        )

    @property
    def _next(self) -> Literal["enter", "stop"]:
        return "stop" if self._stops() else "enter"

    def _notify(self, wait: Wait | None) -> int | None:
        """Return for how long the sweep may trust that a message is on its way: one is sent for a short sleep."""
        settings = conf.get()
        if not dispatch.active(self._place.store.alias):
            return None
        if wait is None:
            return settings.notify_grace
        return wait.delay + settings.notify_grace if wait.delay and wait.delay <= settings.sweep_every else None

    def send(self, position: Position, save: Save) -> Flow[Committed | None]:
        """Send a commit, and again while the store does not answer: at most one takes effect. None: a stale fence."""
        patience, doubtful = Patience(), False
        while True:
            try:
                committed = yield from self._place.tasks.task_commit(position, save)
            except (OutcomeUnknown, StoreUnavailable) as error:
                doubtful = doubtful or isinstance(error, OutcomeUnknown)
                yield from patience.after(error)
                continue
            if committed is None and doubtful:
                committed = yield from self.already(position.save_seq + 1)
            return committed

    def already(self, save_seq: int) -> Flow[Committed | None]:
        """Return what a commit did whose answer was lost, if it was ours that took effect."""
        record = yield from self._place.read()
        ours = record.worker == self._worker if record.status == "running" else record.saved_by == self._worker
        if record.save_seq != save_seq or not ours:
            return None
        return Committed(
            record.status, record.reason, record.fence, record.attempts, record.cancel_requested, record.now
        )
