"""Let a worker die at a named point of a step, without a process of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from ..durable import points
from ..durable.points import Crashed, Point


def crash_at(step: str, point: Point, *, times: int = 1) -> AbstractContextManager[None, bool]:
    """Let the worker that reaches ``point`` of the step named ``step`` die there, the first ``times`` times.

    ``"entered"``: the step is entered, its function not called. ``"returned"``: the function has returned, nothing is
    saved. ``"called"``: inside ``ctx.call``, the call was made and its result not kept. ``"saved"``: the step is saved,
    and the next one entered, if there is one.

    What dies writes nothing more and keeps its lease: let that lapse with ``age``. ``run_until_idle`` goes on with the
    other tasks; anything else that drives a task, such as ``run()``, ends with the block, which swallows the crash.
    Fails with an ``AssertionError`` if the point was reached less often. ::

        with crash_at("pay", "returned"):
            run_until_idle()
        age(store, 61)
        run_until_idle()
    """
    if point not in points.POINTS:
        raise ValueError(f"there is no point {point!r}: take one of {', '.join(points.POINTS)}")
    if times < 1:
        raise ValueError("times must be at least 1")
    return _CrashAt(step, point, times)


class _CrashAt(AbstractContextManager[None, bool]):
    """Watch the points for as long as the block."""

    def __init__(self, step: str, point: Point, times: int) -> None:
        self._step, self._point, self._times = step, point, times
        self._crashes: list[Crashed] = []

    def __enter__(self) -> None:
        points.watchers.append(self._watch)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        points.watchers.remove(self._watch)
        ours = any(error is crash for crash in self._crashes)
        reached = len(self._crashes)
        if reached < self._times and (error is None or ours):
            raise AssertionError(
                f"{self._point!r} of step {self._step!r} was reached {reached} times, not {self._times}"
            )
        return ours

    def _watch(self, point: str, step: str) -> None:
        if (point, step) == (self._point, self._step) and len(self._crashes) < self._times:
            self._crashes.append(Crashed(f"the worker dies at {point!r} of step {step!r}, as the test wants it"))
            raise self._crashes[-1]
