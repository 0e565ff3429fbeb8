"""A database clock that stands still, to look at the very instant of an expiry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from django_statestore.store import Store

START = 1_800_000_000_000  # milliseconds since 1970


@contextmanager
def clock_at(store: Store, milliseconds: int) -> Iterator[None]:
    """Let the statements of a store read that many milliseconds after ``START`` from the clock."""
    backend: Any = store.backend
    real = backend.database.dialect
    instant = START + milliseconds
    now = str(instant) if real.vendor == "sqlite" else f"to_timestamp({instant} / 1000.0)"
    changes = {
        name: getattr(real, name).replace(real.now, now)
        for name in ("now", "after", "before_clock", "read", "after_read", "from_clock", "seconds_until", "micros")
    }
    still = replace(real, **changes, _rendered={})
    assert not [name for name, text in changes.items() if "julianday" in text or "clock_timestamp" in text]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend.database, "dialect", still)
        yield
