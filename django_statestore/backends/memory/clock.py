"""The clock of a memory store."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock:
    """Tell the time in whole microseconds since 1970, in UTC.

    It is set by the system's clock once and then goes by the monotonic one: nothing sets it back.
    """

    def __init__(self) -> None:
        self._ahead = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        return (time.monotonic_ns() + self._ahead) // 1000


def after(now: int, milliseconds: int) -> int:
    """Return the instant that lies so many milliseconds after ``now``."""
    return now + milliseconds * 1000


def maybe_after(now: int, milliseconds: int | None) -> int | None:
    """Return the same, or None for None."""
    return None if milliseconds is None else now + milliseconds * 1000


def earlier(at: int | None, by: int) -> int | None:
    """Return an instant moved ``by`` microseconds into the past, or None for None."""
    return None if at is None else at - by


def moment(at: int) -> datetime:
    """Return an instant as an aware datetime."""
    return _EPOCH + timedelta(microseconds=at)


def maybe_moment(at: int | None) -> datetime | None:
    """Return the same, or None for None."""
    return None if at is None else moment(at)
