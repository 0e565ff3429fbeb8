"""dedup: windows in which an event counts once."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..exceptions import StoreUnavailable
from ..flow import Action, Flow, both
from ..keys import Entry
from ..ttl import Duration, milliseconds
from .base import KeyedFacet, ListingPrimitives
from .tokens import new_token, token_digest

if TYPE_CHECKING:
    from .once import Once

ClaimState: TypeAlias = Literal["new", "pending", "done"]


class DedupPrimitives(ListingPrimitives):
    """Be what a backend fills in. ``token`` is a digest."""

    @abstractmethod
    def dedup_seen(self, entry: Entry, ttl: int) -> Action[bool]:
        """Open a window where none is open; return whether one already was. A repeat writes nothing."""

    @abstractmethod
    def dedup_claim(self, entry: Entry, token: bytes, ttl: int, lease: int) -> Action[ClaimState | None]:
        """Claim the event where it is neither claimed nor done; None: it changed hands meanwhile, ask again."""

    @abstractmethod
    def dedup_confirm(self, entry: Entry, token: bytes) -> Action[bool]:
        """Turn the claim of ``token`` into a window that lasts ``ttl`` from the claim; False: taken over."""

    @abstractmethod
    def dedup_forget(self, entry: Entry, token: bytes) -> Action[bool]:
        """Drop the claim of ``token``, so that the next sighting is new; False: taken over."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Say what a sighting is: ``"new"`` (yours to handle), ``"pending"`` (another handles it) or ``"done"``."""

    key: str
    state: ClaimState
    token: str | None = field(repr=False)
    """For "new" the proof that the claim is yours, else None."""
    _facet: Dedup = field(repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.state == "new"

    def _confirm(self) -> Flow[bool]:
        """Mark the event as handled until its window ends. Joins the caller's transaction on a database.

        False: the claim is not yours (any more): another took over after your lease ran out, or the window ended too.
        """
        return (yield from self._facet._settle(self.key, self.token, done=True))

    def _forget(self) -> Flow[bool]:
        """Give the event back, so that its next sighting is "new"; False: the claim is not yours (any more)."""
        return (yield from self._facet._settle(self.key, self.token, done=False))

    confirm, aconfirm = both(_confirm)
    forget, aforget = both(_forget)


class Dedup(KeyedFacet[DedupPrimitives]):
    """Tell first sightings from repeats.

    A window is fixed from the first sighting on: a repeat neither slides it nor writes. ``ttl`` is in seconds; make it
    longer than the sender's last retry.
    """

    name = "dedup"

    def _seen(self, key: str, ttl: Duration) -> Flow[bool]:
        """Return False for the first sighting of ``key`` and True for a repeat within ``ttl``. One False in a race.

        On a database it joins the caller's transaction: if that is rolled back, nothing was seen.
        """
        return (yield from self._backend.dedup_seen(self._entry(key), milliseconds(ttl)))

    def _claim(self, key: str, ttl: Duration, lease: Duration = 60) -> Flow[Claim]:
        """Claim the handling of ``key`` for ``lease`` seconds; then ``confirm()`` it, or ``forget()`` it.

        One "new" in a race. If neither call comes, the claim ends with its lease and the next sighting is "new". On a
        database the claim must be durable when it returns: inside an open transaction it is refused.
        """
        entry, window, held, token = self._entry(key), milliseconds(ttl), milliseconds(lease, "lease"), new_token()
        for _ in range(_PATIENCE):
            state = yield from self._backend.dedup_claim(entry, token_digest(token), window, held)
            if state is not None:
                return Claim(key, state, token if state == "new" else None, self)
        raise StoreUnavailable(f"the event {key!r} changes hands faster than it can be claimed: try again")

    def _settle(self, key: str, token: str | None, *, done: bool) -> Flow[bool]:
        if token is None:
            return False
        settle = self._backend.dedup_confirm if done else self._backend.dedup_forget
        return (yield from settle(self._entry(key), token_digest(token)))

    def _confirm(self, key: str, token: str) -> Flow[bool]:
        """Confirm by token, as ``Claim.confirm`` does, in any process."""
        return (yield from self._settle(key, token, done=True))

    def _forget(self, key: str, token: str) -> Flow[bool]:
        """Forget by token, as ``Claim.forget`` does, in any process."""
        return (yield from self._settle(key, token, done=False))

    def once(self, key: str, ttl: Duration, lease: Duration = 60) -> Once:
        """Handle ``key`` once: ``with store.dedup.once("evt:1", 600) as claim:``, or ``async with``.

        ``claim`` is true only for "new": test it. A clean end confirms it (``ClaimLost``: the lease had run out and
        another took the event); an exception forgets it, so that the sender's next try is "new".
        """
        from .once import Once

        return Once(self, key, ttl, lease)

    seen, aseen = both(_seen)
    claim, aclaim = both(_claim)
    confirm, aconfirm = both(_confirm)
    forget, aforget = both(_forget)


_PATIENCE = 10
