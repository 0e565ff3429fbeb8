"""The ``STATESTORE`` setting: behaviour that belongs to no single store, with its defaults.

Durations are in seconds, or a ``timedelta``. Settings are read when they are used, never at import.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from django.conf import settings as django_settings

from .exceptions import InvalidTTL, StoreMisconfigured
from .ttl import milliseconds

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Settings:
    """Hold the checked values; durations are whole milliseconds."""

    lease: int = 60_000
    """How long a worker that has died keeps its task from the others; it renews at a third of this."""
    sweep_every: int = 30_000
    """How often beat is to run the sweep."""
    notify_grace: int = 300_000
    """How long the sweep waits for a message it has sent before it sends another."""
    run_slice: int = 30_000
    """How long one message may drive a task before it sends itself again."""
    mismatch_grace: int = 3_600_000
    """How long a task waits for code that can continue it before it is parked."""
    retain_finished: int = 14 * _DAY * 1000
    """How long a finished task, and so its id, is kept."""
    spool_grace: int = 3_600_000
    """How long a reader may go on reading spooled bytes that were rewritten or deleted."""
    spool_lease: int = 300_000
    """How long an upload may pause between two pieces before it is given up."""
    max_claims: int = 5
    """How many workers in a row may die on a task before it is parked."""
    history_bytes: int = 1_000_000
    """How many bytes of old states a task keeps beside the newest."""
    hints: bool = True
    """Whether messages are sent through Celery, where it is installed; the sweep works without them."""


_DURATIONS = {
    "lease", "sweep_every", "notify_grace", "run_slice", "mismatch_grace", "retain_finished", "spool_grace",
    "spool_lease",
}  # fmt: skip

_NOTHING: dict[str, Any] = {}
_checked_last: tuple[object, Settings] | None = None


def get() -> Settings:
    """Return the settings in force; ``StoreMisconfigured`` names a wrong one by its path."""
    global _checked_last
    given = getattr(django_settings, "STATESTORE", _NOTHING)
    # By identity: what was read while the settings module was still being loaded must not outlive that.
    if _checked_last is None or _checked_last[0] is not given:
        _checked_last = (given, _settings(given))
    return _checked_last[1]


def _settings(given: Any) -> Settings:
    if not isinstance(given, dict):
        raise StoreMisconfigured("STATESTORE must be a dict")
    known = {field.name.upper(): field.name for field in fields(Settings)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise StoreMisconfigured(f"STATESTORE[{name!r}] is unknown; known are {', '.join(sorted(known))}")
        values[known[name]] = _checked(known[name], value, f"STATESTORE[{name!r}]")
    return Settings(**values)


def _checked(name: str, value: Any, path: str) -> Any:
    if name in _DURATIONS:
        try:
            return milliseconds(value, path)
        except InvalidTTL as error:
            raise StoreMisconfigured(str(error)) from None
    if name == "hints":
        if not isinstance(value, bool):
            raise StoreMisconfigured(f"{path} must be True or False")
    elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise StoreMisconfigured(f"{path} must be a whole number above zero")
    return value
