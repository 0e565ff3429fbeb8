"""The entries for ``CELERY_BEAT_SCHEDULE``."""

from __future__ import annotations

from typing import Any

from . import conf

PURGE_EVERY = 600.0


def beat_schedule() -> dict[str, dict[str, Any]]:
    """Return the schedule of the sweep (``SWEEP_EVERY``) and the purge (every ten minutes).

    Call it from ``celery.py``, where settings can be read: ``app.conf.beat_schedule |= beat_schedule()``. A sweep that
    waits longer than its interval in a queue is dropped: the next one does the same.
    """
    every = conf.get().sweep_every / 1000
    return {
        "statestore.sweep": {"task": "statestore.sweep", "schedule": every, "options": {"expires": max(every, 1.0)}},
        "statestore.purge": {"task": "statestore.purge", "schedule": PURGE_EVERY, "options": {"expires": PURGE_EVERY}},
    }
