"""A step whose own writes and whose commit are one transaction."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from enum import Enum, auto

from django.db import DatabaseError, Error, InterfaceError, transaction

from ...contracts.position import Position
from ...contracts.tasks import Committed, Save
from ...exceptions import OutcomeUnknown, StoreUnavailable, TransactionConflict
from ...flow import Action, Call
from .connection import PATIENCE, Database
from .faults import Fault, fault_of
from .primitives import reads
from .tasks import TaskStatements

logger = logging.getLogger("django_statestore.durable")


_DEFAULT_ISOLATION = "select current_setting('default_transaction_isolation')"

_ISOLATED = {"repeatable read", "serializable"}


class _Phase(Enum):
    BEGIN = auto()
    WORK = auto()
    SAVE = auto()
    END = auto()
    LANDED = auto()


class AtomicStatements(TaskStatements):
    """Fill in the atomic step."""

    def task_atomic(self, at: Position, work: Callable[[], Save]) -> Action[Committed | None]:
        return Call(lambda: _Block(self, at, work).run())

    @reads
    def task_isolated(self) -> bool:
        connection = self.database.connection
        if connection.vendor != "postgresql":
            return False
        if "isolation_level" in connection.settings_dict["OPTIONS"]:
            self.rows(_DEFAULT_ISOLATION, {})  # only a connection knows the name of the level
            return connection.isolation_level.name.replace("_", " ").lower() in _ISOLATED  # type: ignore[attr-defined]
        return self.rows(_DEFAULT_ISOLATION, {})[0][0] in _ISOLATED


class _Block:
    """Be one transaction, and know how far it has come: that tells what an error in it means."""

    def __init__(self, backend: TaskStatements, at: Position, work: Callable[[], Save]) -> None:
        self._backend, self._at, self._work = backend, at, work
        self._database: Database = backend.database
        self._phase = _Phase.BEGIN
        self._committed: Committed | None = None

    def run(self) -> Committed | None:
        self._database.require_durable("task.atomic")
        patience, reconnected = time.monotonic() + PATIENCE, False
        while True:
            try:
                self._once()
            except (DatabaseError, InterfaceError) as error:
                if self._phase is _Phase.LANDED:
                    return self._stands(error)
                fault = fault_of(error, self._database.connection)
                if self._phase is _Phase.BEGIN:  # nothing of the work has run: it may begin again
                    if fault is Fault.CONFLICT and time.monotonic() < patience:
                        time.sleep(random.uniform(0.001, 0.02))  # noqa: S311
                        continue
                    if fault is Fault.LOST and not reconnected:
                        self._database.connection.close()
                        reconnected = True
                        continue
                self._raise(error, fault)
            except Exception as error:
                if self._phase is not _Phase.LANDED:
                    raise
                return self._stands(error)
            return self._committed

    def _once(self) -> None:
        with self._database.durable_block():
            # The first callback of all: it is called where COMMIT took effect, before one of the step's own can raise.
            transaction.on_commit(self._land, using=self._database.alias)
            self._phase = _Phase.WORK
            save = self._work()
            self._phase = _Phase.SAVE
            self._committed = self._backend.commit(self._at, save)
            if self._committed is None:
                transaction.set_rollback(True, using=self._database.alias)
            self._phase = _Phase.END

    def _land(self) -> None:
        self._phase = _Phase.LANDED

    def _stands(self, error: Exception) -> Committed | None:
        logger.error(
            "a step was committed, but an on_commit callback of its transaction raised: %s", type(error).__name__
        )
        return self._committed

    def _raise(self, error: Error, fault: Fault) -> None:
        name = f"the database {self._database.alias!r}"
        if fault is Fault.CONFLICT:
            raise TransactionConflict(f"{name} gave up the transaction of the step: retry all of it") from error
        if fault is Fault.OTHER or self._phase is _Phase.WORK:
            raise error
        if fault is Fault.LOST and self._phase is _Phase.END and self._committed is not None:
            raise OutcomeUnknown(
                f"the connection to {name} broke before it answered: the step may or may not have been committed"
            ) from error
        raise StoreUnavailable(f"{name} is not available: {type(error).__name__}") from error
