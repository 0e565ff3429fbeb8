"""Every error this package raises, one name for each condition; ``StateStoreError`` is the base of them all.

A message names the culprit and the remedy. No value, token or handoff id ever stands in one.
"""

from __future__ import annotations

import copyreg
from typing import Any

from django.core.exceptions import ImproperlyConfigured


class StateStoreError(Exception):
    """Be the base of every error raised by django-statestore."""

    def __reduce__(self) -> tuple[Any, ...]:
        # For pickle: worker pools send errors between processes. By default it would call __init__ with the message.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


# -- settings ---------------------------------------------------------------------------------------------------------


class StoreMisconfigured(StateStoreError, ImproperlyConfigured):
    """A setting is wrong; the message names its path, such as ``STATESTORES['fast']['OPTIONS']['cache']``."""


class StoreDoesNotExist(StateStoreError, KeyError):
    """``stores[alias]`` was asked for an alias that ``STATESTORES`` does not define."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        super().__init__(f"there is no store {alias!r}: add it to the STATESTORES setting")

    def __str__(self) -> str:
        return str(self.args[0])


class NotSupported(StateStoreError):
    """This backend cannot do what was asked of it, and says so before it touches anything."""


# -- bad input: refused before the backend is touched -----------------------------------------------------------------


class InvalidKey(StateStoreError, ValueError):
    """A key, or a name of a namespace, is empty, too long, or not text that UTF-8 can carry."""


class InvalidKeyType(InvalidKey, TypeError):
    """A key, or a name of a namespace, is not a ``str``."""


class InvalidTTL(StateStoreError, ValueError):
    """A duration is zero, negative, not finite, a boolean, or beyond ten years."""


class InvalidTTLType(InvalidTTL, TypeError):
    """A duration is neither a number of seconds nor a ``timedelta``."""


class InvalidArgument(StateStoreError, ValueError):
    """Another argument is out of its bounds; the message names it."""


class InvalidArgumentType(InvalidArgument, TypeError):
    """Another argument is of the wrong type; the message names it."""


class ValueNotSerializable(StateStoreError, TypeError, ValueError):
    """A value would not come back equal and of the same type, so it is refused."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        self.path, self.problem, self.remedy = path, problem, remedy
        super().__init__(f"{path}: {problem}; {remedy}")


class PayloadInvalid(StateStoreError, ValueError):
    """Stored text cannot be read back: it was not written by this package, or by a later version of it."""


# -- the store and its transactions -----------------------------------------------------------------------------------


class StoreUnavailable(StateStoreError):
    """The store cannot be reached or is too busy. Nothing was written: try again later."""


class OutcomeUnknown(StateStoreError):
    """The answer to a write was lost on its way: it may or may not have taken effect."""


class TransactionConflict(StateStoreError):
    """The database gave up the caller's transaction (deadlock, serialization failure, lock): retry the whole of it."""


class TransactionRefused(StateStoreError, RuntimeError):
    """The operation must be durable when it returns, so it cannot run inside an open transaction."""

    def __init__(self, operation: str, database: str, *, second_alias: bool = True) -> None:
        self.operation, self.database = operation, database
        remedy = ", or give the store a second DATABASES alias of the same database in OPTIONS['database']"
        super().__init__(
            f"{operation} must be durable when it returns, but a transaction is open on the database {database!r}: "
            f"call it outside the block (views: transaction.non_atomic_requests){remedy if second_alias else ''}"
        )


# -- contracts --------------------------------------------------------------------------------------------------------


class LockNotAcquired(StateStoreError, TimeoutError):
    """Another holds the lock, and the wait for it is over; the body was not run."""


class LockLost(StateStoreError):
    """The lock expired or was taken over while it was held; the body ran to its end, perhaps beside another."""


class BlobGone(StateStoreError, LookupError):
    """The bytes of a spool reader have been purged since it was made; read the entry anew."""


class ClaimLost(StateStoreError):
    """The claim on an event ended before it was confirmed, and another took it or its window passed."""


class QueueFull(StateStoreError):
    """The queue holds as many items as it may; nothing was added."""


class UploadLapsed(StateStoreError, TimeoutError):
    """A source paused for longer than ``STATESTORE["SPOOL_LEASE"]``, and the purge took what it had given."""


# -- durable tasks ----------------------------------------------------------------------------------------------------


class InvalidDefinition(StateStoreError, ImproperlyConfigured):
    """A durable task is declared in a way that cannot work."""

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}")


class CheckpointInvalid(StateStoreError, ValueError):
    """A checkpoint document breaks the contract; the message names the member."""


class TaskNotFound(StateStoreError, KeyError):
    """No task with this id exists in this store and namespace."""

    def __str__(self) -> str:
        return str(self.args[0])


class TaskExists(StateStoreError):
    """The id belongs to a task of another definition or with another initial state."""


class TaskBusy(StateStoreError):
    """Somebody holds a living lease on the task."""


class TaskFinished(StateStoreError):
    """The task has completed or was cancelled, so it takes no more requests."""


class RepairRefused(StateStoreError):
    """There is nothing that this repair could do to the task; the message says why."""


class SnapshotGone(StateStoreError, LookupError):
    """The save that was asked for is not kept (any more): a task keeps its last 20, within ``HISTORY_BYTES``."""


class NotWaiting(StateStoreError):
    """The task waits for nothing that a person could answer."""


class AlreadyAnswered(StateStoreError):
    """Another has answered this wait before; this answer was not kept."""


class LeaseLost(StateStoreError):
    """The lease on the task ran out and another took it: nothing was written."""


class TaskMismatch(StateStoreError):
    """The code at hand cannot continue this task; nothing was written."""


class UnknownDefinition(TaskMismatch):
    """No installed app registers the definition that made the task."""


class VersionMismatch(TaskMismatch):
    """The checkpoint has another format version."""


class DefinitionMismatch(TaskMismatch):
    """The task was made by another definition."""


class RevisionMismatch(TaskMismatch):
    """The task was made by another revision of its definition."""


class FingerprintMismatch(TaskMismatch):
    """The steps or their replay policies have changed without a new revision."""


class JournalMismatch(StateStoreError):
    """A step that is entered again makes a call with other arguments than the one it made before at that place."""


class StepTimeout(StateStoreError, TimeoutError):
    """A step has run longer than its own ``timeout``; it fails, and is entered again after its back-off."""


class ModelBudgetExceeded(StateStoreError):
    """The step has made all the model calls that its attempt may make."""


class StateInvalid(TaskMismatch, ValueError):
    """The state is not one that the definition accepts."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)
