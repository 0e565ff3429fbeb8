"""How long a worker bears with a store that does not answer, before what a step has done counts as lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ..exceptions import StateStoreError, StoreUnavailable
from ..flow import Flow, Pause

T = TypeVar("T")

_LONGEST = 30.0
"""Seconds."""


class Patience:
    """Pause between one try and the next, longer each time, until it is over."""

    def __init__(self) -> None:
        self._until, self._pause = time.monotonic() + _LONGEST, 0.1

    def after(self, error: StateStoreError) -> Flow[None]:
        """Wait a while after a try that failed; raises ``error`` itself once patience is over."""
        if time.monotonic() >= self._until:
            raise error
        yield from Pause(self._pause)
        self._pause = min(self._pause * 2, 2.0)


def patiently(read: Callable[[], Flow[T]]) -> Flow[T]:
    """Do what only reads, and again while the store does not answer. Not for use in a transaction."""
    patience = Patience()
    while True:
        try:
            return (yield from read())
        except StoreUnavailable as error:
            yield from patience.after(error)
