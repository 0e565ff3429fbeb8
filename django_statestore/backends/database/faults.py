"""What a database's error means for the caller: the one place that reads error codes."""

from __future__ import annotations

from enum import Enum, auto

from django.db import Error, InterfaceError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

_SQLITE_BUSY, _SQLITE_LOCKED, _SQLITE_FULL, _SQLITE_CANTOPEN = 5, 6, 13, 14


class Fault(Enum):
    """Sort a database error by what can be done about it."""

    CONFLICT = auto()
    """Given up for the sake of another transaction; nothing was done, and it may be tried again."""
    LOST = auto()
    """The connection broke: a write may or may not have taken effect."""
    REFUSED = auto()
    """The database cannot take the call now; nothing was done."""
    OTHER = auto()
    """Anything else: an error of the caller's, or of ours."""


def fault_of(error: Error, connection: BaseDatabaseWrapper) -> Fault:
    """Return what kind of fault a translated database error is."""
    cause = error.__cause__
    if connection.vendor == "sqlite":
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        if code in {_SQLITE_BUSY, _SQLITE_LOCKED}:
            return Fault.CONFLICT
        return Fault.REFUSED if code in {_SQLITE_FULL, _SQLITE_CANTOPEN} else Fault.OTHER
    state = str(getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or "")
    if state in {"40001", "40P01", "55P03"}:  # serialization failure, deadlock, lock not available
        return Fault.CONFLICT
    if _ends_connection(error, state):
        return Fault.LOST
    raw = connection.connection
    if raw is None or raw.closed:
        return Fault.LOST
    if state.startswith("53") or state == "57014":  # resources, statement timeout
        return Fault.REFUSED
    return Fault.OTHER


def _ends_connection(error: Error, state: str) -> bool:
    """Return whether PostgreSQL ended the connection, or its driver found it broken.

    The present connection cannot tell: at the end of a block Django makes a new one, or fails to and raises that error
    in place of the first.
    """
    if not state:
        return isinstance(error, OperationalError | InterfaceError)
    severity = getattr(getattr(error.__cause__, "diag", None), "severity_nonlocalized", None)
    return severity in {"FATAL", "PANIC"} or state.startswith("08")
