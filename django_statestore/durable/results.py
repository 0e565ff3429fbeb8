"""What came out of a step, checked and encoded before anything is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..contracts.tasks import Wait
from ..exceptions import InvalidArgument, InvalidArgumentType, StateInvalid
from ..keys import check_text
from ..ttl import Duration, milliseconds
from .outcomes import Fail, Finish, NotDone, Repeat, Sleep, WaitFor
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
    wait: Wait | None = None


def result_of(returned: Any, encode: Callable[[Any], str], *, step: str, reconciling: bool) -> Result[Any]:
    """Return the result that a step or reconcile function meant; ``StateInvalid``: it is none."""
    if isinstance(returned, Fail):
        return Result("failed", ends=True, reason=clean(returned.code, 500) or "failed")
    if returned is NotDone:
        raise StateInvalid(f"step {step!r} returned NotDone, which only its reconcile function may")
    outcome, state = "reconciled" if reconciling else "done", returned
    repeats, ends, wait = isinstance(returned, Repeat), isinstance(returned, Finish), None
    if isinstance(returned, Repeat):
        outcome, state, wait = "repeated", returned.state, _repeat(returned)
    elif isinstance(returned, Finish):
        outcome, state = "finished", returned.state
    elif isinstance(returned, Sleep):
        outcome, state, wait = "slept", returned.state, Wait(milliseconds(returned.delay, "Sleep.delay"))
    elif isinstance(returned, WaitFor):
        outcome, state, wait = "waited", returned.state, _wait_for(returned)
    return Result(outcome, state, encode(state), repeats=repeats, ends=ends, wait=wait)


def _repeat(repeat: Repeat[Any]) -> Wait | None:
    if repeat.wait_for:
        if repeat.delay is not None:
            raise InvalidArgument("Repeat takes a delay or a wait_for, not both: a wait is bounded by its timeout")
        return Wait(_timeout(repeat.timeout, "Repeat.timeout"), _signal(repeat.wait_for, "Repeat.wait_for"))
    if repeat.timeout is not None:
        raise InvalidArgument("Repeat.timeout bounds a wait: give wait_for too")
    return None if repeat.delay is None else Wait(milliseconds(repeat.delay, "Repeat.delay"))


def _wait_for(wait: WaitFor[Any]) -> Wait:
    name = _signal(wait.name, "WaitFor.name")
    spec = json.dumps({"form": _form(wait.form), "permission": _permission(wait.permission)})
    return Wait(_timeout(wait.timeout, "WaitFor.timeout"), name, spec)


def _timeout(given: Duration | None, what: str) -> int | None:
    return None if given is None else milliseconds(given, what)


def _signal(name: str, what: str) -> str:
    check_text(name, what)
    return name


def _form(form: type[Any] | None) -> str:
    """Return where the class of a form is found again by another process, as ``module:Name``."""
    if form is None:
        return ""
    from django.forms import BaseForm

    if not isinstance(form, type) or not issubclass(form, BaseForm):
        raise InvalidArgumentType("WaitFor.form must be a Django form class, not an instance or a name")
    if "<locals>" in form.__qualname__:
        raise InvalidArgument(f"WaitFor.form {form.__name__!r} is made inside a function: define it in a module")
    return f"{form.__module__}:{form.__qualname__}"


def _permission(permission: str) -> str:
    if permission:
        app, dot, codename = permission.partition(".")
        if not (app and dot and codename):
            raise InvalidArgument("WaitFor.permission must read 'app_label.codename'")
    return permission
