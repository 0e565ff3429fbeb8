"""lock in memory.

One number for all locks deals the fences: so a lock that has ended leaves nothing behind, and the next fence of its key
is higher all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.lock import LockPrimitives
from ...keys import Entry
from .clock import after
from .primitives import MemoryPrimitives, writes
from .rows import Hold
from .shelf import named


class LockOperations(MemoryPrimitives, LockPrimitives):
    """Fill in the primitives of lock. Nothing here is refused inside a transaction: memory takes no part in any."""

    @writes
    def lock_acquire(self, now: int, entry: Entry, token: bytes, ttl: int) -> int | None:
        held = self.memory.locks.live(entry.digest, now)
        if held is None:
            self.memory.last_fence = fence = max(self.memory.last_fence + 1, now)
            self.memory.locks.put(Hold(*named(entry), after(now, ttl), token, fence))
            return fence
        if held.token != token:
            return None
        self._extend(now, entry, token, ttl)
        return held.fence

    @writes
    def lock_release(self, now: int, entry: Entry, token: bytes) -> bool:
        return self._unlock(self._locked(now, entry, token))

    @writes
    def lock_extend(self, now: int, entry: Entry, token: bytes, ttl: int) -> bool:
        return self._extend(now, entry, token, ttl)

    @writes
    def lock_force_release(self, now: int, entry: Entry) -> bool:
        return self._unlock(self.memory.locks.live(entry.digest, now))

    @writes
    def lock_renew(self, now: int, held: Sequence[tuple[Entry, bytes, int]]) -> list[bool]:
        return [self._extend(now, *lock) for lock in held]

    def _locked(self, now: int, entry: Entry, token: bytes) -> Hold | None:
        lock = self.memory.locks.live(entry.digest, now)
        return lock if lock is not None and lock.token == token else None

    def _unlock(self, lock: Hold | None) -> bool:
        if lock is not None:
            self.memory.locks.remove(lock)
        return lock is not None

    def _extend(self, now: int, entry: Entry, token: bytes, ttl: int) -> bool:
        lock = self._locked(now, entry, token)
        if lock is not None:
            lock.expires_at = after(now, ttl)
            self.memory.locks.put(lock)
        return lock is not None
