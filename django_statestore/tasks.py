"""The Celery tasks. Importing this module does not need Celery: other task runners look for a ``tasks`` module too.

A worker that is told to stop (SIGTERM) finishes the open step of each durable task that it drives, saves it, and hands
the task on to another worker. The ``solo``, ``threads``, ``gevent`` and ``eventlet`` pools do so. The children of
``prefork`` are not told of a warm stop: there ``STATESTORE["RUN_SLICE"]`` bounds how long the worker takes to end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

from .services import purge as _purge
from .services import resume as _resume
from .services import sweep as _sweep

P = ParamSpec("P")

PURGE_SECONDS = 240.0

_told_to_stop = False


def _stop(**kwargs: Any) -> None:
    # No event and no lock: this runs inside a signal handler, which a second signal may interrupt.
    global _told_to_stop
    _told_to_stop = True


def stopping() -> bool:
    """Return whether this process is a Celery worker that was told to stop; it never goes on after that."""
    return _told_to_stop


def _listen() -> None:
    """Be told when the Celery worker that this process is shuts down."""
    try:
        from celery.signals import worker_shutting_down
    except ImportError:
        return
    worker_shutting_down.connect(_stop, weak=False, dispatch_uid="statestore")


_listen()


def _task(name: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Make a Celery task of a function, or leave it as it is where there is no Celery."""
    try:
        from celery import shared_task
    except ImportError:
        return lambda function: function
    decorator: Callable[[Callable[P, None]], Callable[P, None]] = shared_task(name=name, ignore_result=True)
    return decorator


@_task("statestore.resume")
def resume(store: str, namespace: list[str], task_id: str) -> None:
    """Drive one durable task for a slice. The row decides: a message that is late, early or doubled does no harm."""
    _resume.resume(store, namespace, task_id, stopping=stopping)


@_task("statestore.sweep")
def sweep() -> None:
    """Send a message for each durable task that is due and has none on its way."""
    _sweep.sweep()


@_task("statestore.purge")
def purge() -> None:
    """Remove expired entries and finished tasks, for some minutes at the most; the next run goes on."""
    _purge.purge(seconds=PURGE_SECONDS)
