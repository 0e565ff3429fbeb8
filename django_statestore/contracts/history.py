"""The kept saves of a task, and what an operator may do with a task that nobody holds."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from ..flow import Action
from ..renewer import RenewingBackend
from .position import Position

if TYPE_CHECKING:
    from .taskrecord import NewTask


@dataclass(frozen=True, slots=True)
class SavedStep:
    """Describe one kept save, without its state.

    ``save`` numbers the saves of a task from 0, its start; ``step`` made it; ``next_index`` is where the task stood
    after it; ``attempts`` had been spent by then, in all; ``milliseconds`` is how long the step ran, ``size`` the
    bytes of the state.
    """

    save: int
    step: str
    next_index: int
    turn: int
    attempts: int
    outcome: str
    size: int
    worker: str
    milliseconds: int | None
    saved_at: datetime


@dataclass(frozen=True, slots=True)
class Fork:
    """Say what a new task takes over from another.

    ``through``: items of the journal up to this save are copied, with their ``save_seq`` set to 0; None: none are.
    Spool uses are always copied, calls, repairs and signals never.
    """

    source: int
    through: int | None
    next_index: int


@dataclass(frozen=True, slots=True)
class Repair:
    """Hold what an operator does to a task that nobody holds, and the line that the journal keeps of it.

    Each raises the fence, clears ``reason``, ``claims``, ``mismatch_since`` and the back-off (a sleep or wait is left
    as it is), lets go of a lapsed lease and makes the task due, unless it sleeps or waits. ``mark_not_done`` also sets
    ``ready``. ``save``: a state is saved too, as the next save.
    """

    action: Literal["retry_now", "mark_not_done", "mark_done", "migrate"]
    sender: str
    note: str
    """Codec text for the journal line."""
    notify: int | None
    save: RepairSave | None = None


@dataclass(frozen=True, slots=True)
class RepairSave:
    """Hold the state that a repair saves. ``status``: what the task is then; a completed one is not made due.

    ``turn`` is set to 1, and what it waits for or has received is forgotten, but for ``keeps_turn``: the task stays at
    its step then. Definition, revision and fingerprint are written as given.
    """

    state: str
    step: str
    next_index: int
    status: Literal["ready", "running", "completed"]
    outcome: str
    definition: str
    revision: str
    fingerprint: str
    keeps_turn: bool = False


class HistoryPrimitives(RenewingBackend):
    """Be the part of a backend that shows old saves, and starts over from them."""

    @abstractmethod
    def task_history(self, task: int) -> Action[list[SavedStep]]:
        """Return the kept saves, the oldest first."""

    @abstractmethod
    def task_saved(self, task: int, save: int) -> Action[str | None]:
        """Return the state after a save, or None if it is not kept (any more)."""

    @abstractmethod
    def task_fork(self, new: NewTask, fork: Fork) -> Action[bool]:
        """Insert a task that goes on where another stood; False: the id is taken, and nothing was written."""

    @abstractmethod
    def task_repair(self, at: Position, repair: Repair) -> Action[bool]:
        """Repair a task that nobody holds; False: the row has changed, has ended, or is held."""
