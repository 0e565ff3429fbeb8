"""What a durable task keeps beside its row: its saves, the lines of its journal, and its mailbox."""

from __future__ import annotations

from dataclasses import dataclass

from ...contracts.history import SavedStep
from ...contracts.journal import CallLine, JournalLine
from ...contracts.mailbox import Letter, Mail
from .clock import earlier, maybe_moment, moment


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

    @property
    def shown(self) -> SavedStep:
        return SavedStep(
            save=self.save_seq,
            step=self.step,
            next_index=self.step_index,
            turn=self.turn,
            attempts=self.attempts,
            outcome=self.outcome,
            size=len(self.state),  # a state is ASCII
            worker=self.worker,
            milliseconds=self.milliseconds,
            saved_at=moment(self.saved_at),
        )


@dataclass(slots=True, eq=False)
class Line:
    """Hold one line of the journal."""

    number: int
    kind: str
    name: str
    save_seq: int
    value: str
    created_at: int
    occurrence: int = 0
    arguments: bytes = b""
    sender: str = ""

    @property
    def call(self) -> CallLine:
        return CallLine(self.name, self.occurrence, self.arguments, self.value)

    @property
    def shown(self) -> JournalLine:
        return JournalLine(
            number=self.number,
            kind=self.kind,
            name=self.name,
            occurrence=self.occurrence,
            save_seq=self.save_seq,
            value=self.value,
            sender=self.sender,
            created_at=moment(self.created_at),
        )


@dataclass(slots=True, eq=False)
class MailRow:
    """Hold one request that was applied to a task: in memory none is ever only stored."""

    id: int
    kind: str
    name: str
    key: str | None
    payload: str
    sender: str
    seq: int
    sent_at: int
    used_at: int | None = None

    @property
    def mail(self) -> Mail:
        return Mail(self.id, self.name, self.payload, self.sender, moment(self.sent_at))

    @property
    def shown(self) -> Letter:
        return Letter(
            kind=self.kind,
            name=self.name,
            sender=self.sender,
            sent_at=moment(self.sent_at),
            seq=self.seq,
            used_at=maybe_moment(self.used_at),
            dropped=False,
        )

    def age(self, by: int) -> None:
        self.sent_at, self.used_at = self.sent_at - by, earlier(self.used_at, by)
