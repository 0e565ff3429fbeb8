"""Hints: Celery messages that tell a worker to look at a task. The row decides; a hint may be lost or doubled."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .. import conf
from .courier import PATIENCE, Courier

logger = logging.getLogger("django_statestore.dispatch")

RESUME = "statestore.resume"

_courier = Courier()
_silent: ContextVar[bool] = ContextVar("django_statestore_silent", default=False)


@contextmanager
def silenced() -> Iterator[None]:
    """Send no hints from this thread, or this coroutine and what it calls: who drives the tasks is here already."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def active(alias: str) -> bool:
    """Return whether hints are sent for tasks of this store: Celery is installed, and the settings do not forbid it."""
    if not alias or _silent.get() or not conf.get().hints:
        return False
    try:
        import celery  # noqa: F401
    except ImportError:
        return False
    return True


def send(alias: str, names: Sequence[str], task_id: str, *, queue: str | None = None, countdown: int = 0) -> bool:
    """Send one hint, to be delivered after ``countdown`` milliseconds; False: it was not sent. Never raises.

    Takes ``courier.PATIENCE`` at the most, whatever the broker does, and no time while the broker is known to be away.
    No ``expires``: that would compare two machines' clocks. No retry: the sweep finds the task anyway.
    """
    if not active(alias) or _courier.resting:
        return False
    from celery import current_app
    from celery.exceptions import OperationalError

    app = current_app._get_current_object()
    options = {"countdown": countdown / 1000 or None, "retry": False, "ignore_result": True, "queue": queue}
    arguments = [alias, list(names), task_id]
    try:
        if app.conf.task_always_eager:
            if countdown:  # it would not wait, but run at once, in here, and find that it is too early, and send again
                return False
            if RESUME not in app.tasks:
                app.loader.import_default_modules()  # as a worker does when it starts
            app.tasks[RESUME].apply_async(arguments, **options)
        else:
            _courier.carry(lambda: _publish(app, arguments, options))
    except Exception as error:
        _report(error, alias, task_id, away=isinstance(error, (OperationalError, OSError)))
        return False
    return True


def try_again() -> None:
    """Send the next hint for real, also where the broker has just failed: it may be back."""
    _courier.wake()


def _publish(app: Any, arguments: list[Any], options: dict[str, Any]) -> None:
    with app.producer_pool.acquire(block=True, timeout=PATIENCE) as producer:
        producer.connection.ensure_connection(max_retries=0)  # by default kombu tries again for seconds
        app.send_task(RESUME, arguments, producer=producer, **options)


def _report(error: Exception, alias: str, task_id: str, *, away: bool) -> None:
    """Log a hint that was not sent: of those that fail because one broker is away, the first."""
    if away and _courier.resting:
        return
    what = f"the broker does not answer; no hint is sent for {_courier.rest():.0f} s" if away else "a hint was not sent"
    logger.warning(
        "%s; the sweep finds the task: %s", what, type(error).__name__, extra={"store": alias, "task_id": task_id}
    )
