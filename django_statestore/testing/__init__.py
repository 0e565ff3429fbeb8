"""Helpers for the tests of projects that use this package, and of backends."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .crash import CrashPoints
from .time import age

if TYPE_CHECKING:
    from ..durable.points import Crashed
    from .dying import crash_at
    from .running import NotIdle, arun_until_idle, run_until_idle

__all__ = ["CrashPoints", "Crashed", "NotIdle", "age", "arun_until_idle", "crash_at", "run_until_idle"]

# What needs the engine is imported when it is first used: pytest loads this package in every project.
_LATER = {
    "Crashed": "..durable.points",
    "crash_at": ".dying",
    "NotIdle": ".running",
    "arun_until_idle": ".running",
    "run_until_idle": ".running",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name], __name__), name)
