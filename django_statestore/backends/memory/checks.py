"""What the system checks say of a store in memory."""

from __future__ import annotations

from django.conf import settings
from django.core.checks import CheckMessage, Warning


def check_memory(alias: str) -> list[CheckMessage]:
    """Warn where a memory store looks like one of production: with ``DEBUG`` off."""
    if settings.DEBUG:
        return []
    return [
        Warning(
            f"STATESTORES[{alias!r}] keeps its state in the memory of one process: no other process sees it, and it is "
            "gone when the process ends.",
            hint="Use DatabaseBackend or a Redis store here; keep MemoryBackend for tests and notebooks.",
            id="statestore.W006",
        )
    ]
