"""Helpers for the tests of projects that use this package, and of backends."""

from .crash import CrashPoints
from .time import age

__all__ = ["CrashPoints", "age"]
