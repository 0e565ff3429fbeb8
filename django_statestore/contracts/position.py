"""The version of a task's row that a change was decided on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """Name the very row version that a change was decided on."""

    task: int
    fence: int
    save_seq: int
