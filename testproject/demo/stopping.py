"""How the demo ends when it is asked to: at the next look, with everything cleaned up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """Somebody wants the demo to end."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


class Stop:
    """Remember a signal; `check()` raises it where the demo can take it."""

    def __init__(self) -> None:
        self._number: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._number = number

    def check(self) -> None:
        if self._number is not None:
            raise Interrupted(self._number)


@contextmanager
def asked_to_stop() -> Iterator[Stop]:
    """Note Ctrl-C and SIGTERM instead of dying of them in the middle of a start or an end of processes."""
    stop = Stop()
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
