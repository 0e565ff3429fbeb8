"""lock: mutual exclusion across processes, with a token, a time to live and a fence."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..flow import Action, Flow, both
from ..keys import Entry
from ..renewer import RenewingBackend
from ..ttl import Duration, milliseconds, wait_milliseconds
from .base import KeyedFacet, ListingPrimitives
from .tokens import new_token, token_digest

if TYPE_CHECKING:
    from .hold import Hold

DEFAULT_TTL = 30


class LockPrimitives(ListingPrimitives, RenewingBackend):
    """Be what a backend fills in. ``token`` is a digest."""

    @abstractmethod
    def lock_acquire(self, entry: Entry, token: bytes, ttl: int) -> Action[int | None]:
        """Take the lock where nobody, or this token, holds it; return the fence, or None.

        The fence of a new holder is ``max(last fence + 1, the clock in microseconds)``; a repeat keeps its own.
        """

    @abstractmethod
    def lock_release(self, entry: Entry, token: bytes) -> Action[bool]:
        """End the lock that ``token`` holds alive; the fence stays known for a day."""

    @abstractmethod
    def lock_extend(self, entry: Entry, token: bytes, ttl: int) -> Action[bool]:
        """Let the lock that ``token`` holds alive live ``ttl`` from now."""

    @abstractmethod
    def lock_force_release(self, entry: Entry) -> Action[bool]:
        """End the lock, whoever holds it alive."""

    @abstractmethod
    def lock_renew(self, held: Sequence[tuple[Entry, bytes, int]]) -> Action[list[bool]]:
        """Extend many locks at once, for the renewing thread; return for each whether it is still held."""


@dataclass(frozen=True, slots=True)
class Lock:
    """Be an acquired lock. The token may travel: ``store.lock.release(key, token)`` works in any process."""

    key: str
    token: str = field(repr=False)
    fence: int
    """A number that rises with every holder: let a guarded resource refuse a lower one than it has seen."""
    _facet: LockFacet = field(repr=False, compare=False)
    _until: float = field(repr=False, compare=False)

    @property
    def expires_in(self) -> float:
        """Return the seconds left as this process reckons them, 0 when over; the store's clock decides."""
        return max(0.0, self._until - time.monotonic())

    def _release(self) -> Flow[bool]:
        """Give the lock back; False: it was no longer held, and nothing changed."""
        return (yield from self._facet._release(self.key, self.token))

    def _extend(self, ttl: Duration) -> Flow[Lock | None]:
        """Let the lock live ``ttl`` seconds from now and return it so; None: it was no longer held."""
        started = time.monotonic()
        if not (yield from self._facet._extend(self.key, self.token, ttl)):
            return None
        return Lock(self.key, self.token, self.fence, self._facet, started + milliseconds(ttl) / 1000)

    release, arelease = both(_release)
    extend, aextend = both(_extend)


class LockFacet(KeyedFacet[LockPrimitives]):
    """Lock names across processes.

    On a database every operation must be durable when it returns: inside an open transaction it is refused
    (``TransactionRefused``). Take the lock outside, open the transaction inside.
    """

    name = "lock"

    @property
    def primitives(self) -> LockPrimitives:
        return self._backend

    def entry(self, key: str) -> Entry:
        """Return the identity of ``key`` in this namespace, or refuse the key."""
        return self._entry(key)

    def _acquire(self, key: str, ttl: Duration = DEFAULT_TTL) -> Flow[Lock | None]:
        """Take the lock for ``ttl`` seconds, or return None at once if another holds it. It is not re-entrant."""
        return (yield from self.acquire_as_flow(key, ttl, new_token()))

    def acquire_as_flow(self, key: str, ttl: Duration, token: str) -> Flow[Lock | None]:
        """Acquire with a token made before: a repeat recognises its own lock."""
        entry, duration, started = self._entry(key), milliseconds(ttl), time.monotonic()
        fence = yield from self._backend.lock_acquire(entry, token_digest(token), duration)
        return None if fence is None else Lock(key, token, fence, self, started + duration / 1000)

    def _release(self, key: str, token: str) -> Flow[bool]:
        """Give the lock back; False: this token does not hold it (any more), and nothing changed."""
        return (yield from self._backend.lock_release(self._entry(key), token_digest(token)))

    def _extend(self, key: str, token: str, ttl: Duration) -> Flow[bool]:
        """Let the lock live ``ttl`` seconds from now; False: this token does not hold it. Nothing revives it."""
        return (yield from self._backend.lock_extend(self._entry(key), token_digest(token), milliseconds(ttl)))

    def _force_release(self, key: str) -> Flow[bool]:
        """End the lock whoever holds it; return whether somebody did. The holder's own work is not stopped."""
        return (yield from self._backend.lock_force_release(self._entry(key)))

    acquire, aacquire = both(_acquire)
    release, arelease = both(_release)
    extend, aextend = both(_extend)
    force_release, aforce_release = both(_force_release)

    def hold(self, key: str, ttl: Duration = DEFAULT_TTL, wait: Duration = 0) -> Hold:
        """Hold the lock while a block runs: ``with store.lock.hold("k") as lock:`` or ``async with``.

        It waits up to ``wait`` seconds and raises ``LockNotAcquired`` instead of ever running the body unlocked. It
        renews the lock at a third of ``ttl``, and raises ``LockLost`` at the end if that failed, unless the body
        raised. Inside the block ``lock.lost`` and ``lock.check()`` tell.
        """
        from .hold import Hold

        self._entry(key)  # a bad key is refused at once, as a bad duration is
        return Hold(self, key, milliseconds(ttl) / 1000, wait_milliseconds(wait) / 1000)
