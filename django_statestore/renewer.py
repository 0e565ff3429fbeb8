"""The threads of a process that renew whatever leases it holds, one for each backend.

Leases are renewed in groups, one call for all of a kind, at a third of their life time. A thread starts with the first
lease, lets its connections go when none is left, ends soon after, and is made anew after a fork.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress

from .flow import Action

logger = logging.getLogger("django_statestore.renewer")

_IDLE = 10.0


class RenewingBackend(ABC):
    """Be a backend whose leases can be renewed by another thread than the one that took them."""

    @abstractmethod
    def can_renew(self) -> Action[bool]:
        """Return whether another thread sees what the caller writes now."""

    @abstractmethod
    def release_thread(self) -> None:
        """Let go of what this thread holds open, such as a database connection."""


class Renewable(ABC):
    """Be a lease that lives ``seconds`` from each renewal on and is renewed until it is forgotten or lost."""

    def __init__(self, seconds: float, renewed_at: float) -> None:
        self.seconds = seconds
        self.renewed_at = renewed_at
        """When it was last renewed, by this process's monotonic clock, read before the store was asked."""
        self.tried_at = 0.0
        """When a renewal last failed without an answer from the store, by the same clock."""
        self.refused = False

    @property
    def lost(self) -> bool:
        """Return whether the lease is over: the store said so, or it could not be renewed in time."""
        return self.refused or time.monotonic() >= self.renewed_at + self.seconds

    @property
    @abstractmethod
    def group(self) -> tuple[int, str]:
        """Name the backend, and which of its leases one call can renew."""

    @abstractmethod
    def renew_all(self, leases: Sequence[Renewable]) -> list[bool]:
        """Renew the leases of this one's group; return for each whether it is still held."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what this thread holds open for the group, such as a database connection."""


class Renewer:
    """Renew the leases of this process, each backend's in a thread of its own: one that hangs stops no other."""

    def __init__(self) -> None:
        self._start_over()
        os.register_at_fork(after_in_child=self._start_over)

    def _start_over(self) -> None:
        self._lock = threading.Lock()
        self._workers: dict[int, Worker] = {}

    @property
    def leases(self) -> set[Renewable]:
        """Return what is being renewed."""
        with self._lock:
            return set[Renewable]().union(*(worker.leases for worker in self._workers.values()))

    def add(self, lease: Renewable) -> None:
        """Renew ``lease`` from now on."""
        key = lease.group[0]
        with self._lock:
            worker = self._workers.get(key)
            if worker is None or not worker.add(lease):
                self._workers[key] = worker = Worker(lease, lambda ended: self._forget(key, ended))
                worker.start()

    def remove(self, lease: Renewable) -> None:
        """Renew ``lease`` no more."""
        with self._lock:
            worker = self._workers.get(lease.group[0])
        if worker is not None:
            worker.remove(lease)

    def _forget(self, key: int, ended: Worker) -> None:
        with self._lock:
            if self._workers.get(key) is ended:
                del self._workers[key]


class Worker(threading.Thread):
    """Renew the leases of one backend, from the first one on until there was none for a while."""

    def __init__(self, lease: Renewable, ended: Callable[[Worker], object]) -> None:
        super().__init__(name="statestore-renewer", daemon=True)
        self.leases = {lease}
        self._ended = ended
        self._over = False
        self._changed = threading.Condition()
        self._sleeping_for = 0.0
        self._opened: dict[Hashable, Renewable] = {}

    def add(self, lease: Renewable) -> bool:
        """Take one more lease; False: the thread is ending."""
        with self._changed:
            if self._over:
                return False
            self.leases.add(lease)
            if lease.seconds < self._sleeping_for * 3:
                self._changed.notify()
            return True

    def remove(self, lease: Renewable) -> None:
        with self._changed:
            self.leases.discard(lease)
            if self._opened and not self.leases:
                self._changed.notify()

    def run(self) -> None:
        while (due := self._wait()) is not None:
            groups: dict[Hashable, list[Renewable]] = {}
            for lease in due:
                groups.setdefault(lease.group, []).append(lease)
            for group, leases in groups.items():
                self._opened[group] = leases[0]
                self._renew(leases)
            if not due:
                self._close()
        self._ended(self)

    def _wait(self) -> list[Renewable] | None:
        """Wait for leases that are due; an empty list: no lease is left; None: none for a while, so the thread ends."""
        with self._changed:
            idle_until = time.monotonic() + _IDLE
            while True:
                now = time.monotonic()
                due = [lease for lease in self.leases if now >= _next_at(lease)]
                if due or (self._opened and not self.leases):
                    return due
                if self.leases:
                    idle_until = now + _IDLE
                elif now >= idle_until:
                    self._over = True
                    return None
                soonest = min((_next_at(lease) for lease in self.leases), default=idle_until)
                self._sleeping_for = max(0.0, soonest - now)
                self._changed.wait(self._sleeping_for)
                self._sleeping_for = 0.0

    def _close(self) -> None:
        # At once: an open connection would keep a test database from being dropped.
        while self._opened:
            with suppress(Exception):
                self._opened.popitem()[1].close()

    def _renew(self, leases: list[Renewable]) -> None:
        started = time.monotonic()
        try:
            kept = leases[0].renew_all(leases)
        except Exception as error:
            # Not a loss yet: the lease still lives, and is tried again until it would have ended.
            logger.warning("could not renew %d lease(s): %s", len(leases), type(error).__name__)
            for lease in leases:
                lease.tried_at = started
            return
        for lease, held in zip(leases, kept, strict=True):
            if held:
                lease.renewed_at = started
            else:
                lease.refused = True
                self.remove(lease)


def _next_at(lease: Renewable) -> float:
    """Return when to renew: a third into the life time, and again soon after a failure."""
    return max(lease.renewed_at + lease.seconds / 3, lease.tried_at + min(1.0, lease.seconds / 10))


renewer = Renewer()
