"""Durable tasks: multi-step work that survives a dead worker."""

from ..contracts.history import SavedStep
from ..contracts.journal import JournalLine
from ..contracts.mailbox import Letter
from .backoff import Backoff
from .comparing import ABSENT, Difference
from .context import StepContext
from .definition import ModelBudget
from .handle import TaskHandle
from .leaving import Cancelled, DeadlinePassed, LeaseOver, StepLeft
from .migrating import Moved
from .outcomes import Fail, Finish, NotDone, Repeat, Signal, Sleep, WaitFor
from .task import DurableTask
from .waiting import Wait

__all__ = [
    "ABSENT",
    "Backoff",
    "Cancelled",
    "DeadlinePassed",
    "Difference",
    "DurableTask",
    "Fail",
    "Finish",
    "JournalLine",
    "LeaseOver",
    "Letter",
    "ModelBudget",
    "Moved",
    "NotDone",
    "Repeat",
    "SavedStep",
    "Signal",
    "Sleep",
    "StepContext",
    "StepLeft",
    "TaskHandle",
    "Wait",
    "WaitFor",
]
