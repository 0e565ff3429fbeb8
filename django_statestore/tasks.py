"""The Celery tasks. Importing this module does not need Celery: other task runners look for a ``tasks`` module too."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from .services import purge as _purge
from .services import resume as _resume
from .services import sweep as _sweep

P = ParamSpec("P")

PURGE_SECONDS = 240.0


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
    _resume.resume(store, namespace, task_id)


@_task("statestore.sweep")
def sweep() -> None:
    """Send a message for each durable task that is due and has none on its way."""
    _sweep.sweep()


@_task("statestore.purge")
def purge() -> None:
    """Remove expired entries and finished tasks, for some minutes at the most; the next run goes on."""
    _purge.purge(seconds=PURGE_SECONDS)
