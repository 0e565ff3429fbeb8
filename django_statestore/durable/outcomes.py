"""What a step may return instead of its new state, and what it may find that it waited for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from ..ttl import Duration

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Repeat(Generic[S]):
    """Save the state and run the same step again, as its next turn. A turn is not a retry: it costs no attempt.

    ``delay``: after so many seconds. ``wait_for``: once that signal has come, or ``timeout`` seconds are over; the next
    turn finds it as ``ctx.received``. No worker and no connection is held meanwhile.
    """

    state: S
    delay: Duration | None = None
    wait_for: str = ""
    timeout: Duration | None = None


@dataclass(frozen=True, slots=True)
class Sleep(Generic[S]):
    """Save the state and finish the step; the next one is entered after ``delay`` seconds.

    The sleep is kept by the store, not by a worker. In the last step the task completes when it is over.
    """

    state: S
    delay: Duration


@dataclass(frozen=True, slots=True)
class WaitFor(Generic[S]):
    """Save the state and finish the step; the next one is entered once the signal ``name`` has come.

    A signal that was sent early is kept and counts. The next step finds it as ``ctx.received``, or None where
    ``timeout`` seconds were over first. ``form``, a Django form class of a module, says what an answer must look like,
    ``permission``, such as ``"shop.approve_refund"``, who may answer: both bind those who answer through the admin,
    the API or ``services.answers``, not code that sends the signal itself. In the last step the task completes then.
    """

    state: S
    name: str
    timeout: Duration | None = None
    form: type[Any] | None = None
    permission: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """Be what a step waited for. ``payload`` is what the sender gave, ``at`` when the store took it."""

    name: str
    payload: Any
    sender: str
    at: datetime


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
