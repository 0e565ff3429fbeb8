"""Points that a worker passes, where a test may let it die."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

Point: TypeAlias = Literal["entered", "returned", "called", "saved"]
"""Entered and not begun; the function has returned, nothing is saved; inside ``ctx.call``, the call was made and not
journaled; saved."""

POINTS: tuple[Point, ...] = get_args(Point)


class Crashed(BaseException):
    """The worker is to count as dead: whoever sees this writes nothing, and lets nothing go."""


watchers: list[Callable[[str, str], None]] = []
"""What tests ask to be told: the point and the name of its step."""


def reach(point: Point, step: str) -> None:
    """Be a point of a step. Costs nothing where nobody watches; raises ``Crashed`` where a test wants it."""
    for watcher in tuple(watchers):
        watcher(point, step)
