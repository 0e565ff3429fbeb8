"""How a message is handed to a broker that may keep silent: no caller waits longer than ``PATIENCE``.

Client libraries differ in what they do about a silent peer: py-amqp gives up after four seconds, redis-py never does.
So each message is handed over by another thread, which is left behind if it hangs. A broker that has failed is then
left alone for a while: an outage costs one caller its patience now and then, not every caller every time.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from django.db import connections

PATIENCE = 2.0
"""Seconds that a caller waits for a message to be handed over."""

SHORTEST_REST, LONGEST_REST = 5.0, 60.0
"""Seconds without a try after a failure; they double from one failure to the next."""

_KEPT = 4
"""How many threads without an errand are kept: to start one costs more than a message does."""


class Courier:
    """Hand messages to one broker. Threads may share it; a process that forks starts with threads of its own."""

    def __init__(self) -> None:
        self._rest = SHORTEST_REST
        self._resting_until = 0.0
        self._start_over()
        os.register_at_fork(after_in_child=self._start_over)

    def _start_over(self) -> None:
        self._idle: list[_Runner] = []

    @property
    def resting(self) -> bool:
        """Return whether the broker has failed so lately that no message is handed over."""
        return time.monotonic() < self._resting_until

    def rest(self) -> float:
        """Leave the broker alone for a while, and return the seconds."""
        seconds, self._rest = self._rest, min(self._rest * 2, LONGEST_REST)
        self._resting_until = time.monotonic() + seconds
        return seconds

    def wake(self) -> None:
        """Try the next message whatever happened before."""
        self._resting_until = 0.0

    def carry(self, hand_over: Callable[[], object]) -> None:
        """Do ``hand_over`` in another thread; raises what it raises, or ``TimeoutError`` when patience is over.

        What timed out may still be done later.
        """
        errand = _Errand(hand_over)
        try:
            runner = self._idle.pop()
        except IndexError:
            runner = _Runner(self._idle)
        runner.errands.put(errand)
        if not errand.done.wait(PATIENCE):
            raise TimeoutError("the broker kept silent")
        if errand.error is not None:
            raise errand.error
        self._rest = SHORTEST_REST


class _Errand:
    """Hold one message on its way."""

    def __init__(self, hand_over: Callable[[], object]) -> None:
        self._hand_over = hand_over
        self._context = contextvars.copy_context()  # what traces and log lines of the caller go by
        self.done = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._context.run(self._hand_over)
        except BaseException as error:
            self.error = error


class _Runner:
    """Be a thread that does one errand after the other, and is among the idle between them."""

    def __init__(self, idle: list[_Runner]) -> None:
        self.errands: SimpleQueue[_Errand] = SimpleQueue()
        self._idle = idle
        threading.Thread(target=self._work, name="statestore-courier", daemon=True).start()

    def _work(self) -> None:
        kept = True
        while kept:
            errand = self.errands.get()
            errand.run()
            with suppress(Exception):
                connections.close_all()  # this thread's own: a receiver of Celery's signals may have opened one
            kept = len(self._idle) < _KEPT
            if kept:
                self._idle.append(self)
            errand.done.set()
