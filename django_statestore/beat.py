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
