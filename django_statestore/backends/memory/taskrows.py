"""The rows of durable tasks, and the ways in which they are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from django.conf import settings

from ... import conf
from ...contracts.tasks import FINISHED, RING, DueTask, NewTask, Position, Status, TaskRecord
from ...keys import Entry
from .agenda import Agenda
from .blobs import Blobs
from .clock import after, earlier, maybe_after, maybe_moment, moment
from .shelf import named

IDLE = 1000
"""How many tasks that have ended are left to the purge."""

_DAY = 86_400_000


@dataclass(slots=True, eq=False)
class Saved:
    """Hold the state after one save."""

    save_seq: int
    step_index: int
    step: str
    turn: int
    attempts: int
    outcome: str
    state: str
    worker: str
    milliseconds: int | None
    saved_at: int


@dataclass(slots=True, eq=False)
class Request:
    """Hold one request that was applied to a task."""

    kind: str
    name: str
    sender: str
    seq: int
    sent_at: int


@dataclass(slots=True, eq=False)
class TaskRow:
    """Hold one task. Its fields are those of ``TaskRecord``; instants are whole microseconds."""

    id: int
    namespace: str
    key: str
    digest: bytes
    driven: bool
    created_at: int
    max_attempts: int
    definition: str = ""
    revision: str = ""
    fingerprint: str = ""
    start_digest: bytes | None = None
    status: Status = "ready"
    step_index: int = 0
    turn: int = 1
    attempts: int = 0
    deadline: int | None = None
    max_calls: int | None = None
    reserved_calls: int = 0
    max_calls_per_attempt: int | None = None
    reason: str = ""
    save_seq: int = 0
    fence: int = 0
    claims: int = 0
    worker: str = ""
    wake_at: int | None = None
    resume_at: int | None = None
    notified_until: int | None = None
    mismatch_since: int | None = None
    cancel_requested: str | None = None
    signal_seq: int = 0
    progress: float | None = None
    progress_text: str = ""
    last_error: str = ""
    finished_at: int | None = None
    retention: int | None = None
    saves: dict[int, Saved] = field(default_factory=dict)
    """The last ones, by ``save_seq`` modulo the size of the ring."""
    requests: list[Request] = field(default_factory=list)

    # -- what is true of it -------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        return self.status not in FINISHED

    def held(self, now: int) -> bool:
        """Return whether somebody holds a living lease."""
        return bool(self.worker) and self.wake_at is not None and self.wake_at > now

    def due(self, now: int) -> bool:
        return self.wake_at is not None and self.wake_at <= now

    def overdue(self, now: int) -> bool:
        return self.deadline is not None and self.deadline <= now

    def room(self, calls: int) -> bool:
        """Return whether one more entry, with so many model calls, is allowed."""
        fits = self.max_calls is None or self.reserved_calls + calls <= self.max_calls
        return self.attempts < self.max_attempts and fits

    # -- what is done to it -------------------------------------------------------------------------------------------

    def raise_fence(self, now: int) -> None:
        self.fence = max(self.fence + 1, now)

    def let_go(self, now: int) -> None:
        """Be held by nobody, and forget what it waited for."""
        self.raise_fence(now)
        self.worker, self.resume_at, self.notified_until = "", None, None

    def report(self, fraction: float | None, text: str | None) -> None:
        """Take on a progress, where there is one."""
        if fraction is not None:
            self.progress = fraction
        if text is not None:
            self.progress_text = text

    def keep(self, saved: Saved) -> None:
        """Keep a save in place of the one that is as many before it as the ring is long."""
        self.saves[saved.save_seq % RING] = saved

    def age(self, by: int) -> None:
        self.created_at -= by
        self.wake_at, self.resume_at = earlier(self.wake_at, by), earlier(self.resume_at, by)
        self.notified_until, self.deadline = earlier(self.notified_until, by), earlier(self.deadline, by)
        self.mismatch_since, self.finished_at = earlier(self.mismatch_since, by), earlier(self.finished_at, by)
        for request in self.requests:
            request.sent_at -= by

    # -- how it is shown ----------------------------------------------------------------------------------------------

    def record(self, now: int) -> TaskRecord:
        newest = self.saves.get(self.save_seq % RING)
        if newest is not None and newest.save_seq != self.save_seq:
            newest = None
        return TaskRecord(
            id=self.id,
            namespace=self.namespace,
            key=self.key,
            driven=self.driven,
            definition=self.definition,
            revision=self.revision,
            fingerprint=self.fingerprint,
            start_digest=self.start_digest,
            status=self.status,
            step_index=self.step_index,
            turn=self.turn,
            attempts=self.attempts,
            max_attempts=self.max_attempts,
            deadline=maybe_moment(self.deadline),
            max_calls=self.max_calls,
            reserved_calls=self.reserved_calls,
            max_calls_per_attempt=self.max_calls_per_attempt,
            reason=self.reason,
            save_seq=self.save_seq,
            fence=self.fence,
            claims=self.claims,
            worker=self.worker,
            wake_at=maybe_moment(self.wake_at),
            resume_at=maybe_moment(self.resume_at),
            cancel_requested=self.cancel_requested,
            progress=self.progress,
            progress_text=self.progress_text,
            last_error=self.last_error,
            created_at=moment(self.created_at),
            finished_at=maybe_moment(self.finished_at),
            state=None if newest is None else newest.state,
            saved_attempts=0 if newest is None else newest.attempts,
            saved_by="" if newest is None else newest.worker,
            now=moment(now),
        )

    @property
    def named(self) -> DueTask:
        return DueTask(self.id, self.namespace, self.key, self.fingerprint)


class Tasks:
    """Keep the tasks. ``put`` one after each change of its instants, reason or status."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._ids = count(1)
        self._rows: dict[int, TaskRow] = {}
        self._by_digest: dict[bytes, TaskRow] = {}
        self._waking: Agenda[int] = Agenda()
        """Those of the engine that are not due yet, as far as was looked."""
        self._due: dict[int, TaskRow] = {}
        self._diverged: dict[int, TaskRow] = {}
        self._ended: Agenda[int] = Agenda()
        """Those without a retention of their own, by their end."""
        self._over: Agenda[int] = Agenda()
        """Others, by when they may go."""

    def of(self, entry: Entry) -> TaskRow | None:
        return self._by_digest.get(entry.digest)

    def get(self, task: int) -> TaskRow | None:
        return self._rows.get(task)

    def at(self, at: Position) -> TaskRow | None:
        """Return the task if it is still the version that a change was decided on."""
        row = self._rows.get(at.task)
        return row if row is not None and (row.fence, row.save_seq) == (at.fence, at.save_seq) else None

    def within(self, namespace: str) -> list[TaskRow]:
        """Return the tasks of exactly this namespace."""
        return [row for row in self._rows.values() if row.namespace == namespace]

    def new(self, entry: Entry, now: int, *, driven: bool, max_attempts: int = 0) -> TaskRow:
        """Make a task; it is found once it is ``put``."""
        return TaskRow(next(self._ids), *named(entry), driven, now, max_attempts)

    def started(self, new: NewTask, now: int) -> TaskRow:
        """Make the task of a start, with its first save."""
        row = self.new(new.entry, now, driven=True, max_attempts=new.max_attempts)
        row.definition, row.revision, row.fingerprint = map(
            str.__str__, (new.definition, new.revision, new.fingerprint)
        )
        row.start_digest, row.retention = new.start_digest, new.retention
        row.deadline, row.wake_at = after(now, new.deadline), now
        row.max_calls, row.max_calls_per_attempt = new.max_calls, new.max_calls_per_attempt
        row.notified_until = maybe_after(now, new.notify)
        row.keep(Saved(0, 0, "", 1, 0, "started", new.state, "", None, now))
        return row

    def put(self, row: TaskRow) -> None:
        self._rows[row.id] = self._by_digest[row.digest] = row
        self._due.pop(row.id, None)
        self._waking.put(row.id, row.wake_at if row.driven else None)
        if row.reason == "diverged" and row.wake_at is None and row.open:
            self._diverged[row.id] = row
        else:
            self._diverged.pop(row.id, None)
        self._ended.put(row.id, row.finished_at if row.retention is None else None)
        self._over.put(row.id, self._over_at(row))

    @staticmethod
    def _over_at(row: TaskRow) -> int | None:
        """Return from when on a task may go that has its own retention, or was locked and never saved."""
        if row.finished_at is not None:
            return maybe_after(row.finished_at, row.retention)
        if not row.driven and row.save_seq == 0 and row.wake_at is not None:
            return after(row.wake_at, _DAY)
        return None

    # -- for the sweep ------------------------------------------------------------------------------------------------

    def due(self, now: int) -> list[TaskRow]:
        """Return the engine's tasks that are due, in no order."""
        while (task := self._waking.pop(now)) is not None:
            self._due[task] = self._rows[task]
        return list(self._due.values())

    def diverged(self) -> Iterator[TaskRow]:
        yield from list(self._diverged.values())

    def purge(self, now: int, retention: int, limit: int) -> int:
        """Remove up to ``limit`` tasks whose time is over and that nobody holds; return how many went."""
        gone = self._purge(self._over, now, 0, limit)
        return gone + self._purge(self._ended, now, after(0, retention), limit - gone)

    def _purge(self, agenda: Agenda[int], now: int, kept: int, limit: int) -> int:
        gone = 0
        while gone < limit and (task := agenda.pop(now - kept)) is not None:
            row = self._rows[task]
            if row.held(now):
                assert row.wake_at is not None
                agenda.put(task, row.wake_at - kept)
                continue
            self._remove(row)
            gone += 1
        return gone

    def _remove(self, row: TaskRow) -> None:
        del self._rows[row.id], self._by_digest[row.digest]
        self._due.pop(row.id, None)
        self._diverged.pop(row.id, None)
        for agenda in (self._waking, self._ended, self._over):
            agenda.remove(row.id)
        self._blobs.release(row.id)

    def tidy(self, now: int, limit: int) -> int:
        """Remove up to ``limit`` tasks, as the purge does by the settings, once there are many."""
        if len(self._ended) + len(self._over) <= IDLE or not settings.configured:  # a store may do without settings
            return 0
        return self.purge(now, conf.get().retain_finished, limit)

    def age(self, namespace: str, by: int) -> None:
        for row in self.within(namespace):
            row.age(by)
            self.put(row)
