"""What should be true of durable tasks: a plain description of the rules, for the machine to compare with.

Instants and durations are in minutes of a clock that the tasks share. Every end lies on a half minute and time passes
by whole ones, so the milliseconds that really pass decide nothing. A change names the fence and the save that its
author saw (``At``), and is refused where the row has another by now: that is all a worker needs to be stale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .durable_outcomes import Outcome

LEASE = 4.5
BACKOFF, BACKOFF_FACTOR, BACKOFF_LONGEST = 1.5, 3, 40.5
MAX_CLAIMS, MAX_TURNS, MAX_ATTEMPTS, MAX_CALLS = 3, 3, 5, 5
DEADLINE, RETENTION, RING = 240.5, 300.5, 20

At: TypeAlias = tuple[int, int]


@dataclass
class Clock:
    now: float = 0.0


@dataclass(frozen=True)
class Step:
    name: str
    replay: Literal["safe", "reconcile", "atomic"]
    calls: int = 0


@dataclass
class Mail:
    name: str
    payload: int
    used: bool = False


@dataclass
class Saved:
    state: int
    index: int


@dataclass
class TaskModel:
    """Be one task. A method that may be refused returns whether it was not; it is told the position of who asks."""

    clock: Clock
    steps: list[Step]
    state: int
    deadline: float
    resume: float | None = None
    index: int = 0
    items: list[tuple[int, int]] = field(default_factory=list)
    """Each with its save."""

    status: str = "ready"
    reason: str = ""
    turn: int = 1
    attempts: int = 0
    saved_attempts: int = 0
    max_attempts: int = MAX_ATTEMPTS
    reserved: int = 0
    max_calls: int = MAX_CALLS
    claims: int = 0
    save: int = 0
    saves: list[Saved] = field(default_factory=list)
    holder: Literal["", "worker", "foreign"] = ""
    lease_end: float = 0.0
    waiting: str = ""
    cancel: str | None = None
    finished_at: float = 0.0

    mailbox: list[Mail] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    signals: int = 0
    stirred: bool = False
    """Whether signals came since the mailbox was last looked at, so that the task may wake for nothing."""
    received: Mail | None = None
    kept_calls: dict[tuple[str, int], int] = field(default_factory=dict)

    row: int = 0
    fence: int = 0
    raised: bool = False
    """Whether the fence must have risen since it was last seen."""
    notified: float | None = None
    """Until when the sweep trusts its message; the sweep's own memory, so ``loose`` where the rules leave it open."""
    loose: bool = False
    entries: int = 0

    def __post_init__(self) -> None:
        self.saves.append(Saved(self.state, self.index))

    # -- how it stands ------------------------------------------------------------------------------------------------

    @property
    def at(self) -> At:
        return self.fence, self.save

    @property
    def finished(self) -> bool:
        return self.status in ("completed", "cancelled")

    @property
    def held(self) -> bool:
        return bool(self.holder) and self.lease_end > self.clock.now

    @property
    def parked(self) -> bool:
        return not self.finished and bool(self.reason) and self.cancel is None

    @property
    def overdue(self) -> bool:
        return self.deadline <= self.clock.now

    @property
    def over(self) -> bool:
        return self.cancel is not None or self.overdue

    @property
    def at_end(self) -> bool:
        return self.index == len(self.steps)

    @property
    def timed_out(self) -> bool:
        return self.resume is not None and self.resume <= self.clock.now

    @property
    def rests(self) -> bool:
        """Return whether it sleeps or is in back-off."""
        return not self.waiting and self.resume is not None and not self.timed_out and not self.overdue

    @property
    def step(self) -> Step:
        return self.steps[self.index]

    @property
    def mail(self) -> Mail | None:
        """Return the signal that ends the wait: first in, first out."""
        return next((mail for mail in self.mailbox if mail.name == self.waiting and not mail.used), None)

    @property
    def due(self) -> bool | None:
        """Return whether a worker should look at it; None: it may be woken for nothing."""
        if self.finished or self.held:
            return False
        if self.cancel is not None:
            return True
        if self.holder == "foreign" and (self.parked or self.rests or self.waiting):
            return None  # what the lapsed lease hid is put back by whoever looks
        if self.parked:
            return False
        if self.holder or self.overdue:
            return True
        if self.waiting:
            return True if self.mail or self.timed_out else None if self.stirred else False
        return self.resume is None or self.timed_out

    @property
    def reconciles(self) -> bool:
        return self.status == "running" and self.step.replay == "reconcile"

    @property
    def shortage(self) -> str:
        """Return why the open step cannot be entered once more."""
        if self.attempts >= self.max_attempts:
            return "attempts_exhausted"
        return "budget_exhausted" if self.reserved + self.step.calls > self.max_calls else ""

    @property
    def decision(self) -> str:
        """Return what a worker that reads the row now must do."""
        if self.finished:
            return "finished"
        if self.held:
            return "busy"
        if self.holder == "foreign" and self.cancel is None and (self.parked or self.rests):
            return "restore"
        if self.parked:
            return "parked"
        if self.due is False:
            return "rest"
        if self.cancel is not None or (self.overdue and not self.at_end):
            return "cancel"
        if self.waiting and not (self.mail or self.timed_out or self.overdue):
            return "wait again"
        if self.at_end:
            return "complete"
        if self.claims >= MAX_CLAIMS:
            return "park: reconcile_unknown" if self.reconciles else "park: crash_loop"
        if self.reconciles:
            return "reconcile"
        return f"park: {self.shortage}" if self.shortage else "enter"

    # -- what a worker does -------------------------------------------------------------------------------------------

    def claim(self, at: At, *, enter: bool, signals: int | None, receives: bool) -> bool:
        """Take the lease. ``signals`` is what a waiting task's claim names; None: the task was read as not waiting."""
        wanted = "enter" if enter else "reconcile"
        if at != self.at or self.decision != wanted or (signals is not None) != bool(self.waiting):
            return False
        if self.waiting:
            if signals != self.signals:
                return False
            assert receives is (self.mail is not None), "a signal must win over the time-out"
            self.received = self.mail
            if self.received:
                self.received.used = True
        self.holder, self.lease_end = "worker", self.clock.now + LEASE
        self.waiting, self.resume = "", None
        self.claims += 1
        self._raise()
        if enter:
            self._enter()
        return True

    def enter(self, at: At) -> bool:
        """Enter the step whose reconcile has found it not to be done."""
        if at != self.at or self.over or self.shortage:
            return False
        self._enter()
        return True

    def commit(self, at: At, did: Outcome, *, stops: bool, reconciled: bool) -> bool:
        """Save what a step, or its reconcile, returned, and decide what comes next."""
        if at != self.at:
            return False
        step, repeats = self.step, did.kind in ("repeat", "repeat wait")
        self.reserved -= 0 if reconciled else step.calls - did.spends
        self.save += 1
        if did.kind != "fail":
            self.state = did.state
            self.items += [(self.save, did.state)] * did.appends
        self.saved_attempts, self.claims, self.received = self.attempts, 0, None
        self.kept_calls.clear()
        if repeats:
            self.max_attempts += self.turn < MAX_TURNS
            self.turn += 1
        else:
            self.turn = 1
            if did.kind != "fail":
                self.index = len(self.steps) if did.kind == "finish" else self.index + 1
        self.saves.append(Saved(self.state, self.index))
        waits = did.kind in ("sleep", "wait", "repeat wait") or (did.kind == "repeat" and did.delay is not None)
        if did.kind == "fail":
            self._end("cancelled", "code")
        elif self.at_end and (not waits or self.over):
            self._end("completed")
        elif self.over:
            self._end("cancelled", self.cancel or "deadline_passed")
        elif waits:
            self._release()
            self.status, self.waiting = "ready", did.name
            self.resume = None if did.delay is None else self.clock.now + did.delay
        elif stops:
            self._release()
            self.status = "ready"
        elif self.shortage:
            self._release()
            self.status, self.reason = "ready", self.shortage
        else:
            if self.lease_end - self.clock.now < LEASE * 2 / 3:
                self.lease_end = self.clock.now + LEASE
            self.loose = True
            self._enter()
        return True

    def fail(self, at: At, *, leaves: str, reconciling: bool) -> bool:
        """Record that the step raised. ``leaves``: it left because of a cancel or the deadline."""
        if at != self.at:
            return False
        if self.cancel is not None or leaves:
            self._end("cancelled", f"{self.cancel or leaves} (step {self.step.name!r} was open)")
            return True
        failures = self.claims if reconciling else self.attempts - self.saved_attempts
        self._release()
        self.resume = self.clock.now + min(BACKOFF * BACKOFF_FACTOR ** max(failures - 1, 0), BACKOFF_LONGEST)
        if not reconciling:
            self.claims = 0
        return True

    def leave_unentered(self, at: At, parks: str | None) -> bool:
        """End or park the task whose step was found not to be done, and could not be entered again."""
        if at != self.at:
            return False
        if parks is None:
            self._end("cancelled", self.cancel or "deadline_passed")
        else:
            self._release()
            self.status, self.reason = "ready", parks
        return True

    def renew(self, fence: int) -> bool:
        """Let the lease live on, also one that is over and that nobody took."""
        if fence != self.fence or self.holder != "worker":
            return False
        self.lease_end, self.loose = self.clock.now + LEASE, True
        return True

    # -- what is decided without a lease ------------------------------------------------------------------------------

    def end(self, at: At) -> bool:
        if at != self.at or self.finished or self.held or not self.over:
            return False
        self._end("cancelled", self._why())
        return True

    def park(self, at: At, reason: str) -> bool:
        if at != self.at or self.finished or self.held or self.due is False or self.cancel is not None:
            return False
        self._release()
        self.reason = reason
        return True

    def complete(self, at: At, signals: int | None) -> bool:
        if at != self.at or self.decision != "complete" or signals not in (None, self.signals):
            return False
        if self.waiting and self.mail:
            self.mail.used = True
        self._end("completed")
        return True

    def wait_again(self, at: At, signals: int) -> bool:
        if at != self.at or self.finished or self.held or not self.waiting or signals != self.signals:
            return False
        if self.parked or self.cancel is not None:
            return False
        self._release()
        self.stirred = False
        return True

    def restore(self, at: At) -> bool:
        if at != self.at or self.decision != "restore":
            return False
        self._release()
        return True

    # -- what is asked of it ------------------------------------------------------------------------------------------

    def signal(self, name: str, payload: int, key: str | None) -> None:
        if key is not None:
            if key in self.keys:
                return
            self.keys.add(key)
        self.mailbox.append(Mail(name, payload))
        self.signals += 1
        self.stirred, self.loose = True, True

    def ask_to_end(self, reason: str) -> None:
        self.cancel = self.cancel or reason
        if not self.held:
            self._end("cancelled", self._why())

    def grant(self, attempts: int, calls: int, minutes: float | None) -> None:
        self.max_attempts += attempts
        self.max_calls += calls
        if minutes is not None:
            self.deadline = max(self.deadline, self.clock.now + minutes)
        if not self.held:
            if self.parked and not self.waiting:
                self.resume = None
            self._repaired(keeps=True)

    def retry_now(self) -> str:
        """Return why it is refused, or nothing."""
        refused = self._unrepairable()
        if refused:
            return refused
        sleeps = self.status == "ready" and (bool(self.waiting) or (self.resume is not None and not self.timed_out))
        used_up = self.parked and self.reason in ("attempts_exhausted", "budget_exhausted")
        if used_up or (sleeps and not self.parked):
            return "RepairRefused"
        self._repaired(keeps=sleeps)
        return ""

    def mark_done(self, state: int) -> str:
        refused = self._unrepairable() or ("" if self.status == "running" else "RepairRefused")
        if refused:
            return refused
        self._repaired(keeps=False)
        self.state, self.save, self.index = state, self.save + 1, self.index + 1
        self.saves.append(Saved(self.state, self.index))
        self.saved_attempts, self.turn, self.received, self.status = self.attempts, 1, None, "ready"
        self.kept_calls.clear()
        if self.at_end:
            self._end("completed")
        return ""

    def mark_not_done(self) -> str:
        refused = self._unrepairable() or ("" if self.status == "running" else "RepairRefused")
        if not refused:
            self._repaired(keeps=False)
            self.status = "ready"
        return refused

    def oldest_save(self, index: int) -> int | None:
        """Return the oldest kept save at which that step came next."""
        kept = range(max(0, self.save - RING + 1), self.save + 1)
        return next((save for save in kept if self.saves[save].index == index), None)

    def fork(self, index: int | None, state: int | None) -> TaskModel | None:
        """Return the task that goes on at that step, None: from the newest save; None: what it needs is not kept."""
        save = self.save if index is None else self.oldest_save(index)
        index = self.index if index is None else index
        if save is None and state is None:
            return None
        items = [] if save is None else [(0, item) for at, item in self.items if at <= save]
        state = self.saves[save].state if state is None and save is not None else state
        assert state is not None
        return TaskModel(self.clock, self.steps, state, self.clock.now + DEADLINE, index=index, items=items)

    # -- the contract for foreign engines -----------------------------------------------------------------------------

    def take(self, lease: float) -> bool:
        if self.held:
            return False
        self.holder, self.lease_end = "foreign", self.clock.now + lease
        self._raise()
        return True

    def give_back(self, fence: int) -> bool:
        if fence != self.fence or self.holder != "foreign":
            return False
        self._release()
        return True

    # -- the sweep ----------------------------------------------------------------------------------------------------

    def purged(self) -> bool:
        return self.finished and not self.held and self.finished_at + RETENTION <= self.clock.now

    # -- helpers ------------------------------------------------------------------------------------------------------

    def see(self, fence: int) -> None:
        """Note the fence: it rose where the rules say so, it stayed where they say so, and it never fell."""
        assert fence >= self.fence, "the fence fell"
        assert (fence > self.fence) is self.raised, "the fence rose" if not self.raised else "the fence did not rise"
        self.fence, self.raised = fence, False

    def _enter(self) -> None:
        self.status = "running"
        self.attempts += 1
        self.reserved += self.step.calls

    def _release(self) -> None:
        self.holder = ""
        self._raise()

    def _raise(self) -> None:
        self.raised, self.notified, self.loose = True, None, False

    def _why(self) -> str:
        reason = self.cancel or "deadline_passed"
        return f"{reason} (step {self.step.name!r} was open)" if self.status == "running" else reason

    def _end(self, status: str, reason: str = "") -> None:
        self._release()
        self.status, self.reason, self.finished_at = status, reason, self.clock.now
        self.waiting, self.resume = "", None

    def _unrepairable(self) -> str:
        return "TaskFinished" if self.finished else "TaskBusy" if self.held else ""

    def _repaired(self, *, keeps: bool) -> None:
        """Take the task up again; ``keeps``: a sleep, wait or back-off goes on."""
        self._release()
        self.reason, self.claims, self.loose = "", 0, True
        if not keeps:
            self.resume, self.waiting = None, ""
