"""Where the rows of durable tasks stand, and the ways in which they are found."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

from django.conf import settings

from ... import conf
from ...contracts.mailbox import Request
from ...contracts.position import Position
from ...contracts.taskrecord import NewTask
from ...keys import Entry
from .agenda import Agenda
from .blobs import Blobs
from .clock import after, maybe_after
from .parts import MailRow, Saved
from .shelf import named
from .taskrows import TaskRow, soonest

IDLE = 1000
"""How many tasks that have ended are left to the purge."""

_DAY = 86_400_000


class Tasks:
    """Keep the tasks. ``put`` one after each change of its instants, reason or status."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._ids, self._mail_ids = count(1), count(1)
        self._rows: dict[int, TaskRow] = {}
        self._forget()

    def _forget(self) -> None:
        self._by_digest: dict[bytes, TaskRow] = {}
        self._mail: dict[int, MailRow] = {}
        self._waking: Agenda[int] = Agenda()
        """Those of the engine that are not due yet, as far as was looked."""
        self._due: dict[int, TaskRow] = {}
        self._diverged: dict[int, TaskRow] = {}
        self._ended: Agenda[int] = Agenda()
        """Those without a retention of their own, by their end."""
        self._over: Agenda[int] = Agenda()
        """Others, by when they may go."""

    def mend(self) -> None:
        """Find every task and request again, after a change was broken off."""
        self._forget()
        for row in self._rows.values():
            self._by_digest[row.digest] = row
            self._mail.update((mail.id, mail) for mail in row.mailbox)
            self._file(row)

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

    def started(self, new: NewTask, now: int, *, outcome: str = "started", next_index: int = 0) -> TaskRow:
        """Make the task of a start, with its first save."""
        row = self.new(new.entry, now, driven=True, max_attempts=new.max_attempts)
        row.definition, row.revision, row.fingerprint = map(
            str.__str__, (new.definition, new.revision, new.fingerprint)
        )
        row.start_digest, row.retention = new.start_digest, new.retention
        row.deadline, row.step_index = after(now, new.deadline), next_index
        row.resume_at = maybe_after(0, new.not_before)
        row.wake_at = now if row.resume_at is None else soonest(row.resume_at, row.deadline)
        row.max_calls, row.max_calls_per_attempt = new.max_calls, new.max_calls_per_attempt
        row.notified_until = maybe_after(now, new.notify)
        row.keep(Saved(0, next_index, "", 1, 0, outcome, new.state, "", None, now))
        return row

    def post(self, row: TaskRow, request: Request, now: int) -> MailRow:
        """Put a request into the mailbox of a task, as applied."""
        row.signal_seq += 1
        name, sender = str.__str__(request.name), str.__str__(request.sender)
        key = None if request.key is None else str.__str__(request.key)
        mail = MailRow(next(self._mail_ids), request.kind, name, key, request.payload, sender, row.signal_seq, now)
        row.mailbox.append(mail)
        self._mail[mail.id] = mail
        return mail

    def mail(self, mail: int) -> MailRow | None:
        return self._mail.get(mail)

    def open(self, after: int, limit: int) -> list[TaskRow]:
        """Return tasks of the engine that have not ended, in the order of their ids."""
        rows = (row for row in self._rows.values() if row.id > after and row.driven and row.open)
        return list(islice(rows, limit))  # ids are dealt in the order in which rows are put

    def put(self, row: TaskRow) -> None:
        self._rows[row.id] = self._by_digest[row.digest] = row
        self._file(row)

    def _file(self, row: TaskRow) -> None:
        """Let the task be found by its instants, as they are now."""
        self._due.pop(row.id, None)
        self._waking.put(row.id, row.wake_at if row.driven and row.open else None)
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
        self._blobs.release(row.id)
        del self._rows[row.id], self._by_digest[row.digest]
        self._due.pop(row.id, None)
        self._diverged.pop(row.id, None)
        for agenda in (self._waking, self._ended, self._over):
            agenda.remove(row.id)
        for mail in row.mailbox:
            del self._mail[mail.id]

    def tidy(self, now: int, limit: int) -> int:
        """Remove up to ``limit`` tasks, as the purge does by the settings, once there are many."""
        if len(self._ended) + len(self._over) <= IDLE or not settings.configured:  # a store may do without settings
            return 0
        return self.purge(now, conf.get().retain_finished, limit)

    def age(self, namespace: str, by: int) -> None:
        for row in self.within(namespace):
            row.age(by)
            self.put(row)
