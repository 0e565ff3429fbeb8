"""``ctx.call``: the result of a call is kept at once, so that a step that is entered again does not make it twice.

A result belongs to the newest save: what a step has called is known to its next attempts, and to nobody after its own
save, neither the next turn nor a fork.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import codec
from ..contracts.journal import CallLine
from ..contracts.tasks import TaskPrimitives
from ..exceptions import InvalidArgument, JournalMismatch, OutcomeUnknown, StoreUnavailable
from ..flow import Call, Flow
from ..keys import check_text
from . import points
from .invoke import Invoke
from .leaving import LeaseOver
from .patience import Patience

if TYPE_CHECKING:
    from ..store import Store
    from .lease import TaskLease

LARGE = 65_536
"""Results of more characters than this are spooled, and the journal keeps where."""

_SPOOLED = "spool:"  # begins no text of the codec


class Calls:
    """Make the calls of one run of a step. Threads of the step may share it, each with names of its own.

    ``first``: nobody has entered the step since the newest save, so nothing can be kept yet.
    """

    def __init__(
        self, store: Store, tasks: TaskPrimitives, lease: TaskLease, task_id: str, step: str, *, first: bool
    ) -> None:
        self._store, self._tasks, self._lease, self._task_id, self._step = store, tasks, lease, task_id, step
        self._made: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int], CallLine] | None = {} if first else None

    def call(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Flow[Any]:
        """Return the kept result of this call, or make it and keep what it returned."""
        check_text(name, "the name of a call")
        arguments = _digest(name, args, kwargs)
        with self._lock:
            self._made[name] += 1
            occurrence = self._made[name]
        line = (yield from self._lines()).get((name, occurrence))
        if line is None:
            value = codec.dumps((yield from Invoke(function, args, kwargs)))
            points.reach("called", self._step)
            line = CallLine(name, occurrence, arguments, (yield from self._shortened(name, value)))
            yield from self._keep(line)
            return codec.loads(value)
        if line.arguments != arguments:
            raise JournalMismatch(
                f"step {self._step!r} made call {occurrence} of {name!r} with other arguments before it was "
                "interrupted: a step must make the same calls again, or name them apart"
            )
        return (yield from self._value(line.value))

    def _lines(self) -> Flow[dict[tuple[str, int], CallLine]]:
        """Return the calls kept since the newest save; read once, and after the claim: nobody else adds any now."""
        if self._kept is None:
            lines = yield from self._tasks.task_calls(self._lease.task, self._lease.save_seq)
            self._kept = {(line.name, line.occurrence): line for line in lines}
        return self._kept

    def _keep(self, line: CallLine) -> Flow[None]:
        """Write a result, and again while the store does not answer: it is kept once."""
        patience = Patience()
        while True:
            try:
                kept = yield from self._tasks.task_journal(self._lease.position, line)
            except (OutcomeUnknown, StoreUnavailable) as error:
                yield from patience.after(error)
                if isinstance(error, OutcomeUnknown) and (yield from self._is_kept(line)):
                    return
                continue
            if not kept:
                raise LeaseOver(f"the lease on the task {self._task_id!r} was lost: a call's result was not kept")
            return

    def _is_kept(self, line: CallLine) -> Flow[bool]:
        try:
            return line in (yield from self._tasks.task_calls(self._lease.task, self._lease.save_seq))
        except StoreUnavailable:
            return False

    def _shortened(self, name: str, value: str) -> Flow[str]:
        if len(value) <= LARGE:
            return value
        lease, store, task_id = self._lease, self._store, self._task_id
        reader = yield from Call(lambda: lease.spool(store, task_id, value, f"call {name}"))
        return _SPOOLED + json.dumps(reader.ref)

    def _value(self, text: str) -> Flow[Any]:
        if text.startswith(_SPOOLED):
            ref, store = json.loads(text.removeprefix(_SPOOLED)), self._store
            text = yield from Call(lambda: store.spool.open(ref).read_all())
        return codec.loads(text)


def _digest(name: str, args: Any, kwargs: Any) -> bytes:
    try:
        given = codec.dumps([list(args), dict(sorted(kwargs.items()))])
    except Exception as error:
        raise InvalidArgument(
            f"the call {name!r} has an argument that cannot be compared when the step is entered again: {error}"
        ) from error
    return hashlib.sha256(given.encode()).digest()
