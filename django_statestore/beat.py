"""The entries for ``CELERY_BEAT_SCHEDULE``."""

from __future__ import annotations

from typing import Any

from . import conf

PURGE_EVERY = 600.0


def beat_schedule() -> dict[str, dict[str, Any]]:
    """Return the schedule of the sweep (``SWEEP_EVERY``) and the purge (every ten minutes).

    In ``settings.py``, below ``STATESTORE``: ``CELERY_BEAT_SCHEDULE = beat_schedule()``. Sweeps that pile up in a queue
    are dropped at last: the next one does the same.
    """
    every = conf.get().sweep_every / 1000
    # Celery compares the clocks of two machines: a short life would drop every sweep where one is ahead.
    life = max(every * 10, 60.0)
    return {
        "statestore.sweep": {"task": "statestore.sweep", "schedule": every, "options": {"expires": life}},
        "statestore.purge": {"task": "statestore.purge", "schedule": PURGE_EVERY, "options": {"expires": PURGE_EVERY}},
    }


def schedules_sweep() -> bool | None:
    """Return whether the project's Celery app has the sweep in its schedule; None: there is no telling.

    There is none without Celery or an app, and where the schedule is kept in the database.
    """
    try:
        from celery import current_app
    except ImportError:
        return None
    if current_app.main == "default" or "django_celery_beat" in str(current_app.conf.beat_scheduler):
        return None
    schedule: dict[str, dict[str, Any]] = current_app.conf.beat_schedule or {}
    return any(entry.get("task") == "statestore.sweep" for entry in schedule.values())
