"""Durable tasks: multi-step work that survives a dead worker."""

from .backoff import Backoff
from .context import StepContext
from .definition import ModelBudget
from .handle import TaskHandle
from .outcomes import Fail, Finish, NotDone, Repeat
from .task import DurableTask

__all__ = [
    "Backoff",
    "DurableTask",
    "Fail",
    "Finish",
    "ModelBudget",
    "NotDone",
    "Repeat",
    "StepContext",
    "TaskHandle",
]
