"""What a step may return instead of its new state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Repeat(Generic[S]):
    """Save the state and run the same step again, as its next turn. A turn is not a retry: it costs no attempt."""

    state: S


@dataclass(frozen=True, slots=True)
class Finish(Generic[S]):
    """Save the state and complete the task now, whatever steps are left."""

    state: S


@dataclass(frozen=True, slots=True)
class Fail:
    """End the task as cancelled with ``code`` as its reason; its state stays as it was. There is no retry."""

    code: str


class _NotDone:
    """Be the answer of a reconcile function that has found the effect not to have happened: enter the step again."""

    __slots__ = ()

    def __call__(self) -> _NotDone:
        return self

    def __repr__(self) -> str:
        return "NotDone"


NotDone: Any = _NotDone()
