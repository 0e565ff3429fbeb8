"""How an atomic step runs: what it writes with the ORM and its save are one transaction, so both happen or neither.

The fenced save is the last statement before COMMIT: whoever lost the lease meanwhile is rolled back as a whole.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from .. import flow
from ..contracts.tasks import Committed, Renewal, Save
from ..exceptions import OutcomeUnknown, StateStoreError
from ..flow import Flow
from . import points
from .context import StepContext
from .definition import Step
from .invoke import Invoke
from .results import Result

if TYPE_CHECKING:
    from .drive import Drive
    from .opening import Opened

S = TypeVar("S")


def run(drive: Drive[S], opened: Opened[S], step: Step[S], ctx: StepContext) -> Flow[tuple[Result[S], Save, Committed]]:
    """Run the step and its save as one; raises what the step raised, all rolled back, or ``LeaseLost``."""
    position, prepared = opened.lease.position, list[tuple[Result[S], Save]]()

    def work() -> Save:
        started = time.monotonic()
        returned = Invoke(step.function, (opened.state, ctx)).run()
        points.reach("returned", step.name)
        result = drive.result(opened, step, returned)
        elapsed = round((time.monotonic() - started) * 1000)
        save = flow.run(drive.saving.of(opened, step, result, ctx, elapsed))
        prepared.append((result, save))
        return save

    isolated = yield from drive.tasks.task_isolated()
    if isolated:
        yield from _lease_for(drive, opened, step)
    try:
        committed = yield from drive.tasks.task_atomic(position, work)
    except OutcomeUnknown:
        committed = (yield from drive.saving.already(position.save_seq + 1)) if prepared else None
        if committed is None:  # it was rolled back, so it is a failure like others
            raise
    if committed is None:
        raise (yield from drive.lost(opened))
    if isolated:
        yield from opened.lease.hold()
    return *prepared[0], committed


def _lease_for(drive: Drive[S], opened: Opened[S], step: Step[S]) -> Flow[None]:
    """Take the lease for as long as the step may run: a renewal meanwhile would make its transaction fail."""
    if step.timeout is None:
        raise StateStoreError(
            f"step {step.name!r} is atomic and the database isolates transactions above READ COMMITTED: give it a "
            "timeout, for its lease cannot be renewed while it runs"
        )
    opened.lease.let_go()
    lease = round(step.timeout * 1000)
    yield from drive.tasks.task_renew([Renewal(opened.lease.task, opened.lease.fence, lease, None, None)])
