"""What keeps the saves of a task with a large state from growing without end."""

from __future__ import annotations

from .. import conf
from ..contracts.taskrecord import RING, TaskRecord
from ..contracts.tasks import TaskPrimitives
from ..flow import Flow


class Growth:
    """Know the sizes of a task's kept saves, once a large state makes them matter.

    A ring of 20 small states always fits. Only a state above a twentieth of ``HISTORY_BYTES`` asks for the sizes, once;
    the holder of the lease is the only one who writes saves, so it can keep count from there.
    """

    def __init__(self, tasks: TaskPrimitives) -> None:
        self._tasks = tasks
        self._sizes: list[tuple[int, int]] | None = None

    def forget(self, record: TaskRecord, size: int) -> Flow[int | None]:
        """Return the last save that a commit of ``size`` bytes must drop to keep within the bounds, or None."""
        allowed = conf.get().history_bytes
        if self._sizes is None:
            if size <= allowed // RING:
                return None
            self._sizes = yield from self._tasks.task_sizes(record.id)
        kept, total, last = [(record.save_seq + 1, size)], 0, None
        for save_seq, old in reversed(self._sizes):
            total += old
            if total > allowed or save_seq <= record.save_seq + 1 - RING:
                last = save_seq
                break
            kept.append((save_seq, old))
        self._sizes = kept[::-1]
        return last
