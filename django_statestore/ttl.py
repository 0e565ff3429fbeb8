"""The rule for durations: seconds or a ``timedelta`` from the caller, whole milliseconds to the store.

A client sends durations and never instants; only the store's clock makes and judges an instant.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TypeAlias

from .exceptions import InvalidTTL, InvalidTTLType

Duration: TypeAlias = int | float | timedelta

CEILING = timedelta(days=3653)  # ten years: beyond it a "duration" is a slip of units, and date arithmetic overflows
_MILLISECOND = timedelta(milliseconds=1)
_CEILING_MS = CEILING // _MILLISECOND


def milliseconds(value: Duration, name: str = "ttl") -> int:
    """Return a duration as whole milliseconds, rounded up, so that none is ever cut down to nothing.

    Raises ``InvalidTTL`` (a ``ValueError``) for zero, negative, not finite, boolean, or more than ten years, and
    ``InvalidTTLType`` (also a ``TypeError``) for what is no duration.
    """
    if type(value) is int:
        result = value * 1000
    elif isinstance(value, timedelta):
        result = value // _MILLISECOND + bool(value % _MILLISECOND)
    elif isinstance(value, bool):
        raise InvalidTTL(f"{name} is a boolean: give seconds, a timedelta, or None where that means no expiry")
    elif isinstance(value, int):
        result = int(value) * 1000
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidTTL(f"{name} is not a finite number of seconds")
        # Rounded to the microsecond first: 0.3 s is 300 ms, not the 301 that its binary form would round up to.
        result = math.ceil(round(value * 1000, 3)) if abs(value) < 1e12 else int(value)
        if value > 0:
            result = max(result, 1)
    else:
        raise InvalidTTLType(f"{name} is a {type(value).__name__}: give seconds (int or float) or a timedelta")
    if result <= 0:
        raise InvalidTTL(f"{name} must be more than zero; to remove an entry, delete it")
    if result > _CEILING_MS:
        raise InvalidTTL(f"{name} is more than ten years; None means no expiry where an operation allows it")
    return result


def optional_milliseconds(value: Duration | None, name: str = "ttl") -> int | None:
    """Return ``milliseconds(value)``, or None for None: no expiry."""
    return None if value is None else milliseconds(value, name)


def wait_milliseconds(value: Duration, name: str = "wait") -> int:
    """Return a waiting time as whole milliseconds; unlike a life time it may be zero: do not wait."""
    if not isinstance(value, bool) and isinstance(value, int | float | timedelta) and not value:
        return 0
    return milliseconds(value, name)
