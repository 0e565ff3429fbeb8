"""Who is at work: what the blocks that one object serves are told apart by."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable
from contextlib import suppress


def caller() -> Hashable:
    """Return the asyncio task that runs here, or else the thread."""
    with suppress(RuntimeError):  # no event loop
        if task := asyncio.current_task():
            return task
    return threading.get_ident()
