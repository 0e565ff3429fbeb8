"""The row of a durable task: where it stands, and what moves it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...contracts.mailbox import DueTask
from ...contracts.taskrecord import FINISHED, RING, Status, TaskRecord
from ...contracts.tasks import OpenTask
from .clock import earlier, maybe_moment, moment
from .parts import Line, MailRow, Saved


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
    forked_from: int | None = None
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
    journal_seq: int = 0
    fence: int = 0
    claims: int = 0
    worker: str = ""
    wake_at: int | None = None
    resume_at: int | None = None
    notified_until: int | None = None
    mismatch_since: int | None = None
    waiting_for: str = ""
    wait_spec: str = ""
    signal_seq: int = 0
    signals_seen: int = 0
    received: int | None = None
    cancel_requested: str | None = None
    progress: float | None = None
    progress_text: str = ""
    last_error: str = ""
    finished_at: int | None = None
    retention: int | None = None
    saves: dict[int, Saved] = field(default_factory=dict)
    """The last ones, by ``save_seq`` modulo the size of the ring."""
    journal: list[Line] = field(default_factory=list)
    mailbox: list[MailRow] = field(default_factory=list)

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

    def timed_out(self, now: int) -> bool:
        """Return whether a sleep, or the time-out of a wait, is over."""
        return self.resume_at is not None and self.resume_at <= now

    def room(self, calls: int) -> bool:
        """Return whether one more entry, with so many model calls, is allowed."""
        fits = self.max_calls is None or self.reserved_calls + calls <= self.max_calls
        return self.attempts < self.max_attempts and fits

    @property
    def parked(self) -> bool:
        return bool(self.reason) and self.cancel_requested is None

    def rests(self, now: int) -> bool:
        """Return whether it sleeps, or waits: no step of it is open."""
        return self.status == "ready" and (
            bool(self.waiting_for) or (self.resume_at is not None and self.resume_at > now)
        )

    def rests_until(self, now: int) -> int | None:
        """Return when it is due while nobody holds it; None: it is parked."""
        if self.parked:
            return None
        if self.cancel_requested is not None or (self.waiting_for and self.signal_seq != self.signals_seen):
            return now
        if self.waiting_for or self.resume_at is not None:
            return soonest(self.resume_at, self.deadline)
        return now

    # -- what is done to it -------------------------------------------------------------------------------------------

    def raise_fence(self, now: int) -> None:
        self.fence = max(self.fence + 1, now)

    def let_go(self, now: int) -> None:
        """Be held by nobody, and forget the back-off or the sleep; a wait stays, with its time-out."""
        self.raise_fence(now)
        self.worker, self.notified_until = "", None
        if not self.waiting_for:
            self.resume_at = None

    def stop_waiting(self) -> None:
        self.waiting_for, self.wait_spec, self.resume_at = "", "", None

    def end(self, now: int, status: Status, reason: str) -> None:
        """Be over."""
        self.let_go(now)
        self.resume_at = None
        self.status, self.reason, self.wake_at, self.finished_at = status, reason, None, now

    def report(self, fraction: float | None, text: str | None) -> None:
        """Take on a progress, where there is one."""
        if fraction is not None:
            self.progress = fraction
        if text is not None:
            self.progress_text = text

    # -- its parts ----------------------------------------------------------------------------------------------------

    @property
    def newest(self) -> Saved | None:
        return self.saved(self.save_seq)

    def saved(self, save: int) -> Saved | None:
        """Return a save by its number, if it is kept."""
        saved = self.saves.get(save % RING)
        return saved if saved is not None and saved.save_seq == save else None

    def keep(self, saved: Saved) -> None:
        """Keep a save in place of the one that is as many before it as the ring is long."""
        self.saves[saved.save_seq % RING] = saved

    def note(
        self,
        now: int,
        kind: str,
        name: str,
        value: str,
        *,
        save_seq: int | None = None,
        occurrence: int = 0,
        arguments: bytes = b"",
        sender: str = "",
    ) -> None:
        """Add a line to the journal, by default one of the newest save."""
        self.journal_seq += 1
        save = self.save_seq if save_seq is None else save_seq
        self.journal.append(Line(self.journal_seq, kind, name, save, value, now, occurrence, arguments, sender))

    def oldest(self, name: str) -> MailRow | None:
        """Return the oldest signal of that name that was not used."""
        for mail in self.mailbox:  # in the order in which they were applied
            if mail.kind == "signal" and mail.name == name and mail.used_at is None:
                return mail
        return None

    def use(self, mail: int, now: int) -> None:
        """Mark a signal as used, if it was not."""
        for each in self.mailbox:
            if each.id == mail and each.used_at is None:
                each.used_at = now

    def age(self, by: int) -> None:
        self.created_at -= by
        self.wake_at, self.resume_at = earlier(self.wake_at, by), earlier(self.resume_at, by)
        self.notified_until, self.deadline = earlier(self.notified_until, by), earlier(self.deadline, by)
        self.mismatch_since, self.finished_at = earlier(self.mismatch_since, by), earlier(self.finished_at, by)
        for saved in self.saves.values():
            saved.saved_at -= by
        for line in self.journal:
            line.created_at -= by
        for mail in self.mailbox:
            mail.age(by)

    # -- how it is shown ----------------------------------------------------------------------------------------------

    def record(self, now: int) -> TaskRecord:
        newest = self.newest
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
            waiting_for=self.waiting_for,
            wait_spec=self.wait_spec,
            signal_seq=self.signal_seq,
            received=self.received,
            forked_from=self.forked_from,
            mismatch_since=maybe_moment(self.mismatch_since),
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

    @property
    def shown(self) -> OpenTask:
        newest = self.newest
        return OpenTask(
            id=self.id,
            namespace=self.namespace,
            key=self.key,
            definition=self.definition,
            revision=self.revision,
            fingerprint=self.fingerprint,
            step_index=self.step_index,
            status=self.status,
            reason=self.reason,
            state=None if newest is None else newest.state,
        )


def soonest(resume_at: int | None, deadline: int | None) -> int | None:
    return min((at for at in (resume_at, deadline) if at is not None), default=None)
