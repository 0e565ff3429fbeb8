"""dedup in memory."""

from __future__ import annotations

from ...contracts.dedup import ClaimState, DedupPrimitives
from ...keys import Entry
from .clock import after
from .primitives import MemoryPrimitives, writes
from .rows import Window
from .shelf import named


class DedupOperations(MemoryPrimitives, DedupPrimitives):
    """Fill in the primitives of dedup."""

    @writes
    def dedup_seen(self, now: int, entry: Entry, ttl: int) -> bool:
        if self.memory.dedup.live(entry.digest, now) is not None:
            return True
        self.memory.dedup.put(Window(*named(entry), after(now, ttl), None, None))
        return False

    @writes
    def dedup_claim(self, now: int, entry: Entry, token: bytes, ttl: int, lease: int) -> ClaimState | None:
        found = self.memory.dedup.live(entry.digest, now)
        if found is None or found.token == token:
            self.memory.dedup.put(Window(*named(entry), after(now, lease), token, after(now, ttl)))
            return "new"
        return "done" if found.token is None else "pending"

    @writes
    def dedup_confirm(self, now: int, entry: Entry, token: bytes) -> bool:
        claim = self._pending(now, entry, token)
        if claim is None or claim.window_ends_at is None:
            return False
        claim.token, claim.expires_at, claim.window_ends_at = None, claim.window_ends_at, None
        self.memory.dedup.put(claim)
        return True

    @writes
    def dedup_forget(self, now: int, entry: Entry, token: bytes) -> bool:
        claim = self._pending(now, entry, token)
        if claim is not None:
            self.memory.dedup.remove(claim)
        return claim is not None

    def _pending(self, now: int, entry: Entry, token: bytes) -> Window | None:
        """Return the claim of ``token``: while its window lasts, where nobody took over, also after its lease."""
        found = self.memory.dedup.get(entry.digest)
        return found if found is not None and found.token == token and found.forget_at > now else None
