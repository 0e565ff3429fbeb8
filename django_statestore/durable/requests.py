"""Signals, cancels and grants: what may be asked of a task at any time, also while a worker holds it.

A request is kept durably in the task's mailbox when this returns; inside a caller's transaction it is kept with that,
and applied once it has committed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import codec, flow
from ..contracts.arguments import whole
from ..contracts.mailbox import Limits, Reply, Request
from ..contracts.taskrecord import TaskRecord
from ..exceptions import InvalidArgument, InvalidArgumentType, RepairRefused, TaskFinished
from ..flow import Flow
from ..keys import check_text
from ..ttl import Duration, milliseconds
from .ending import end_if_free
from .place import Place
from .text import clean

RESERVED = "statestore:"
"""How the keys begin that this package gives itself."""

_MOST = 2**31 - 1


def sender_of(sender: str) -> str:
    """Return a sender's name as it is kept."""
    if not isinstance(sender, str):
        raise InvalidArgumentType(f"sender is a {type(sender).__name__}, not a str: give the name of a user or service")
    return clean(sender, 200)


def signal_request(name: str, payload: Any, key: str | None, sender: str) -> Request:
    """Return a signal as a request, or refuse what is wrong with it."""
    check_text(name, "the signal's name")
    if key is not None:
        check_text(key, "the signal's key")
        if key.startswith(RESERVED):
            raise InvalidArgument(f"the signal's key begins with {RESERVED!r}, which is reserved: choose another")
    return Request("signal", name, codec.dumps(payload), key, sender_of(sender))


def cancel_request(reason: str, sender: str) -> Request:
    """Return a cancel as a request, or refuse what is wrong with it."""
    if not isinstance(reason, str):
        raise InvalidArgumentType(f"reason is a {type(reason).__name__}, not a str")
    because = clean(reason, 500)
    if not because:
        raise InvalidArgument("reason is empty: say why the task is cancelled")
    return Request("cancel", because, sender=sender_of(sender))


def grant_request(attempts: int, model_calls: int, deadline: Duration | None, sender: str) -> Request:
    """Return a grant as a request, or refuse what is wrong with it."""
    limits = Limits(
        attempts=whole("attempts", attempts, most=_MOST),
        model_calls=whole("model_calls", model_calls, most=_MOST),
        deadline=None if deadline is None else milliseconds(deadline, "deadline"),
    )
    if limits == Limits():
        raise InvalidArgument("the grant grants nothing: give attempts, model_calls or a deadline")
    return Request("grant", sender=sender_of(sender), limits=limits)


def asked(place: Place, request: Request) -> Flow[Reply]:
    """Keep a request, and apply it now or when the caller's transaction commits.

    ``TaskNotFound``: there is no such task of this engine. ``TaskFinished``: it has ended.
    """
    if request.kind == "grant":
        _check(request, (yield from place.read_driven()))
    if (yield from place.tasks.task_deferred(lambda: _later(place, request))):
        record = yield from place.read_driven()
        _check(request, record)
        return Reply("stored", record.id)
    return (yield from _asked(place, request))


def _check(request: Request, record: TaskRecord) -> None:
    if record.finished:
        raise TaskFinished(f"the task {record.key!r} has ended already")
    limits = request.limits
    if limits.model_calls and record.max_calls is None:
        raise RepairRefused(f"the task {record.key!r} has no model budget: there is nothing to grant model calls to")
    if record.max_attempts + limits.attempts > _MOST or (record.max_calls or 0) + limits.model_calls > _MOST:
        raise InvalidArgument(f"the grant would take the task {record.key!r} beyond {_MOST}")


def _later(place: Place, request: Request) -> None:
    flow.run(_asked(place, request))


def _asked(place: Place, request: Request) -> Flow[Reply]:
    # A cancel is carried out by whoever asks for it, so nobody needs a message.
    notify = None if request.kind == "cancel" else (yield from place.notify())
    reply = yield from place.tasks.task_request(place.entry, replace(request, notify=notify))
    if reply.answered == "refused":
        record = yield from place.read_driven()
        raise TaskFinished(f"the task {record.key!r} has ended already")
    if reply.answered == "stored":
        if (yield from place.tasks.task_hints()):  # else the sweep applies it
            yield from place.after_commit(lambda: apply_requests(place))
    elif reply.answered == "applied":
        yield from _hinted(place, reply, notify)
        if request.kind == "cancel":
            yield from end_if_free(place)
    return reply


def apply_requests(place: Place) -> Flow[None]:
    """Apply what was kept inside transactions, and do what follows from it."""
    notify = yield from place.notify()
    reply = yield from place.tasks.task_apply_requests(place.entry, notify)
    if reply.answered == "applied":
        yield from _hinted(place, reply, notify)
        yield from end_if_free(place)


def _hinted(place: Place, reply: Reply, notify: int | None) -> Flow[None]:
    if reply.woken and notify is not None:
        yield from place.hint(reply.task)
