"""Hints: messages through Celery that tell a worker to look at a task. The row decides; a hint may be lost or doubled."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from .. import conf

logger = logging.getLogger("django_statestore.dispatch")

RESUME = "statestore.resume"


def active(alias: str) -> bool:
    """Return whether hints are sent for tasks of this store: Celery is installed, and the settings do not forbid it."""
    if not alias or not conf.get().hints:
        return False
    try:
        import celery  # noqa: F401
    except ImportError:
        return False
    return True


def send(alias: str, names: Sequence[str], task_id: str, *, queue: str | None = None, countdown: int = 0) -> bool:
    """Send one hint, to be delivered after ``countdown`` milliseconds; False: it was not sent. Never raises.

    No ``expires``: that would compare two machines' clocks. No retry: the sweep finds the task anyway.
    """
    if not active(alias):
        return False
    import celery

    app = celery.current_app
    options = {"countdown": countdown / 1000 or None, "retry": False, "ignore_result": True, "queue": queue}
    arguments = [alias, list(names), task_id]
    try:
        if app.conf.task_always_eager:
            app.tasks[RESUME].apply_async(arguments, **options)
        else:
            with app.producer_pool.acquire(block=True) as producer:
                producer.connection.ensure_connection(max_retries=0)  # by default kombu tries again for seconds
                app.send_task(RESUME, arguments, producer=producer, **options)
    except Exception as error:
        logger.warning(
            "no hint was sent for a task; the sweep will find it: %s",
            type(error).__name__,
            extra={"store": alias, "task_id": task_id},
        )
        return False
    return True
