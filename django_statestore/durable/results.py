"""What came out of a step, checked and encoded before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..exceptions import StateInvalid
from .outcomes import Fail, Finish, NotDone, Repeat
from .text import clean

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Result(Generic[S]):
    """Hold one outcome. ``payload`` None: the state stays as it was."""

    outcome: str
    state: S | None = None
    payload: str | None = None
    repeats: bool = False
    ends: bool = False
    reason: str = ""


def result_of(returned: Any, encode: Callable[[Any], str], *, step: str, reconciling: bool) -> Result[Any]:
    """Return the result that a step or reconcile function meant; ``StateInvalid``: it is none."""
    if isinstance(returned, Fail):
        return Result("failed", ends=True, reason=clean(returned.code, 500) or "failed")
    if returned is NotDone:
        raise StateInvalid(f"step {step!r} returned NotDone, which only its reconcile function may")
    state, outcome = returned, "reconciled" if reconciling else "done"
    if isinstance(returned, Repeat):
        state, outcome = returned.state, "repeated"
    elif isinstance(returned, Finish):
        state, outcome = returned.state, "finished"
    return Result(
        outcome, state, encode(state), repeats=isinstance(returned, Repeat), ends=isinstance(returned, Finish)
    )
