"""How a statement reaches a database: which cursor, whose transaction, and what happens when it fails.

A statement sent outside any transaction is its own transaction. If the database gave it up for another's sake it is
sent again here, out of the caller's sight; inside a transaction that the caller opened that is not ours to hide.
No connection and no transaction is ever held across a caller's code.
"""

from __future__ import annotations

import os
import random
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, Error, InterfaceError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.functional import cached_property

from ...exceptions import OutcomeUnknown, StoreMisconfigured, StoreUnavailable, TransactionConflict, TransactionRefused
from .dialects import DIALECTS, Dialect, Statement
from .faults import Fault, fault_of

T = TypeVar("T")
Row = tuple[Any, ...]
Parameters = Mapping[str, Any]

PATIENCE = 30.0
"""Seconds for which a statement that is ours alone is tried again while others are in its way."""

_NEVER = 2**31  # psycopg prepares a statement by itself after this many uses: only those that ask for it


class Database:
    """Send statements to one alias of ``DATABASES``."""

    def __init__(self, alias: str, *, prepare: bool | None) -> None:
        self.alias = alias
        self._prepare = prepare
        self._cursors = threading.local()

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return connections[self.alias]

    @cached_property
    def dialect(self) -> Dialect:
        vendor = self.connection.vendor
        try:
            return DIALECTS[vendor]
        except KeyError:
            known = " and ".join(DIALECTS)
            raise StoreMisconfigured(f"the database {self.alias!r} is {vendor}; supported are {known}") from None

    # -- transactions -------------------------------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        """Return whether the caller has a transaction open, with ``atomic()`` or by ``AUTOCOMMIT: False``."""
        return self.connection.in_atomic_block or not self._autocommit

    @property
    def in_test_case(self) -> bool:
        """Return whether the innermost open block is the one that ``TestCase`` wraps around a test."""
        return _from_test_case(self.connection)

    def require_durable(self, operation: str) -> None:
        """Refuse to go on inside an open transaction; lenient directly inside a ``TestCase``, as Django is."""
        if self.in_transaction and not self.in_test_case:
            # SQLite has one writer: by a second alias the call would wait for the very block that it stands in.
            raise TransactionRefused(operation, self.alias, second_alias=self.dialect.vendor != "sqlite")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the statements inside one transaction: the caller's where there is one, else our own."""
        if self.in_transaction:
            yield
        else:
            self._connect(self.connection)  # Django would begin on a connection that is known to be dead
            with transaction.atomic(using=self.alias):
                yield

    @contextmanager
    def durable_block(self) -> Iterator[None]:
        """Make all that is done inside one transaction of our own, whoever does it."""
        if not self.in_transaction:
            self._connect(self.connection)
        with transaction.atomic(using=self.alias, durable=True):
            yield

    @property
    def tells_commit(self) -> bool:
        """Return whether ``on_commit`` works: not with ``AUTOCOMMIT: False`` outside any block."""
        return self.connection.in_atomic_block or self._autocommit

    @property
    def _autocommit(self) -> bool:
        connection = self.connection
        if connection.connection is None:  # Django would connect too, with errors of its own
            self._connect(connection)
        return connection.get_autocommit()

    def block_elsewhere(self) -> str | None:
        """Return another alias on which the caller has a block open, if any."""
        for other in connections.all(initialized_only=True):
            if other.alias != self.alias and other.in_atomic_block and not _from_test_case(other):
                return other.alias
        return None

    @property
    def renews(self) -> bool:
        """Return whether another thread can see and renew what this one wrote."""
        connection = self.connection
        in_memory = connection.vendor == "sqlite" and connection.is_in_memory_db()  # type: ignore[attr-defined]
        return not self.in_transaction and not in_memory

    # -- one unit of work ---------------------------------------------------------------------------------------------

    def attempt(self, work: Callable[[], T], *, repeatable: bool, writes: bool = True) -> T:
        """Do ``work``, a few statements at most, and turn a database error into ours.

        ``repeatable`` work may be done twice without harm, so it is also repeated, once, over a new connection when the
        old one broke. Raises ``TransactionConflict`` and ``StoreUnavailable`` (nothing was done) and, for work that
        ``writes`` and was sent, once or twice, without an answer, ``OutcomeUnknown``.
        """
        ours, patience = not self.in_transaction, time.monotonic() + PATIENCE
        lost: Error | None = None
        while True:
            try:
                return work()
            except StoreUnavailable:  # no new connection could be made
                if lost and writes:
                    raise self._unknown() from lost
                raise
            except (DatabaseError, InterfaceError) as error:
                connection = self.connection
                fault = fault_of(error, connection)
                if fault is Fault.OTHER:
                    raise
                if fault is Fault.CONFLICT:
                    if not ours:
                        raise TransactionConflict(
                            f"the database {self.alias!r} gave up the transaction that is open on it: retry all of it"
                        ) from error
                    if time.monotonic() < patience:
                        time.sleep(random.uniform(0.001, 0.02))  # noqa: S311
                        continue
                elif fault is Fault.LOST:
                    connection.close()
                    first, lost = lost is None, error
                    if ours and repeatable and first:
                        continue
                if ours and writes and lost:
                    raise self._unknown() from lost
                raise self._unavailable(error) from error

    def _unknown(self) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"the connection to the database {self.alias!r} broke before it answered: "
            "the write may or may not have taken effect"
        )

    def _unavailable(self, error: Error) -> StoreUnavailable:
        return StoreUnavailable(f"the database {self.alias!r} is not available: {type(error).__name__}")

    def execute(self, template: str, parameters: Parameters) -> list[Row]:
        """Send one statement and return its rows, over the cheapest cursor that hides nothing from Django."""
        connection = self.connection
        self._connect(connection)
        statement = self.dialect.render(template)
        if connection.execute_wrappers or connection.queries_logged:
            return self._through_django(connection, statement, parameters)
        connection.validate_no_broken_transaction()
        if self.dialect.vendor == "sqlite":
            with connection.wrap_database_errors:
                rows: list[Row] = connection.connection.execute(statement.native, parameters).fetchall()
                return rows
        if self._prepares:
            with connection.wrap_database_errors:
                cursor = self._kept_cursor(connection)
                cursor.execute(statement.text, parameters, prepare=True)
                return cursor.fetchall() if cursor.description else []
        return self._through_django(connection, statement, parameters)

    def _connect(self, connection: BaseDatabaseWrapper) -> None:
        raw, patience = connection.connection, 0.0
        ours = connection.autocommit and not connection.in_atomic_block
        if any(raw is inherited for inherited in _inherited):
            if not ours:
                raise StoreUnavailable(
                    f"the transaction on the database {self.alias!r} was begun before this process was forked: end it "
                    "before the fork"
                )
            connection.connection = None  # unused and not closed: that would end the parent's session
        elif raw is not None and ours and _hung_up(raw):
            connection.close()  # known to be dead before anything was sent
        while True:
            try:
                connection.close_if_health_check_failed()
                connection.ensure_connection()
            except Error as error:
                connection.close()  # Django keeps one whose set-up failed
                # SQLite: what is sent on connecting, such as the PRAGMA of a journal mode, may find the file locked.
                patience = patience or time.monotonic() + PATIENCE
                if fault_of(error, connection) is not Fault.CONFLICT or time.monotonic() >= patience:
                    raise self._unavailable(error) from error
                time.sleep(random.uniform(0.001, 0.02))  # noqa: S311
            else:
                return

    @staticmethod
    def _through_django(connection: BaseDatabaseWrapper, statement: Statement, parameters: Parameters) -> list[Row]:
        with connection.cursor() as cursor:
            cursor.execute(statement.text, dict(parameters))
            return cursor.fetchall() if cursor.description else []

    @cached_property
    def _prepares(self) -> bool:
        """Return whether our statements are prepared: psycopg 3, unless told otherwise or behind a pooler's setting."""
        settings = self.connection.settings_dict
        wanted = not settings.get("DISABLE_SERVER_SIDE_CURSORS") if self._prepare is None else self._prepare
        if not wanted:
            return False
        try:
            from django.db.backends.postgresql.psycopg_any import is_psycopg3
        except ImproperlyConfigured:
            return False
        return bool(is_psycopg3)

    def _kept_cursor(self, connection: BaseDatabaseWrapper) -> Any:
        """Return this thread's own cursor on the connection: making one costs as much as a small statement."""
        raw = connection.connection
        kept: tuple[Any, Any] | None = getattr(self._cursors, "kept", None)
        if kept is None or kept[0] is not raw:
            import psycopg

            if raw.prepare_threshold is None:
                raw.prepare_threshold = _NEVER
            kept = (raw, psycopg.Cursor(raw))
            self._cursors.kept = kept
        return kept[1]


_inherited: list[Any] = []
"""The driver's connections that were open when this process was forked. They are the parent's, and kept for good."""


def _inherit() -> None:
    with suppress(Exception):  # at a fork nobody could be told
        for connection in connections.all(initialized_only=True):
            in_memory = connection.vendor == "sqlite" and connection.is_in_memory_db()  # type: ignore[attr-defined]
            if connection.connection is not None and not in_memory:
                _inherited.append(connection.connection)


os.register_at_fork(after_in_child=_inherit)


def _hung_up(raw: Any) -> bool:
    """Return whether the server is known to have closed an idle connection, by a restart or for its idleness."""
    if getattr(raw, "closed", False):
        return True
    if (driver := getattr(raw, "pgconn", None)) is None:  # not psycopg 3
        return False
    poll = select.poll()
    poll.register(driver.socket, select.POLLIN)
    while poll.poll(0):  # a notice, or the end: reading tells
        try:
            driver.consume_input()
        except Exception:
            return True
    return False


def _from_test_case(connection: BaseDatabaseWrapper) -> bool:
    blocks = connection.atomic_blocks
    return bool(blocks) and bool(getattr(blocks[-1], "_from_testcase", False))
