"""A lock that is held, and renewed, while a block runs."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import cast

from ..exceptions import LockLost, LockNotAcquired, StoreUnavailable
from ..flow import Flow, Pause, arun, run
from ..renewer import Renewable, renewer
from .caller import caller
from .lock import Lock, LockFacet
from .tokens import new_token, token_digest


class HeldLock(Renewable):
    """Be the lock inside a ``hold`` block."""

    def __init__(self, facet: LockFacet, lock: Lock, seconds: float) -> None:
        super().__init__(seconds, time.monotonic() - (seconds - lock.expires_in))
        self._facet = facet
        self._backend = facet.primitives
        self._renewal = (facet.entry(lock.key), token_digest(lock.token), round(seconds * 1000))
        self.key, self.token, self.fence = lock.key, lock.token, lock.fence
        self.owner = caller()

    def __repr__(self) -> str:
        return f"<HeldLock key={self.key!r} fence={self.fence} lost={self.lost}>"

    @property
    def expires_in(self) -> float:
        """Return the seconds left as this process reckons them, 0 when over; a renewal starts them anew."""
        return 0.0 if self.refused else max(0.0, self.renewed_at + self.seconds - time.monotonic())

    def check(self) -> None:
        """Raise ``LockLost`` if the lock is lost. Asks no store: the renewing thread already did."""
        if self.lost:
            raise LockLost(f"the lock {self.key!r} was lost: it expired or was taken over")

    @property
    def group(self) -> tuple[int, str]:
        return (id(self._backend), "lock")

    def renew_all(self, leases: Sequence[Renewable]) -> list[bool]:
        held = [cast(HeldLock, lease)._renewal for lease in leases]
        return self._backend.lock_renew(held).run()

    def close(self) -> None:
        self._backend.release_thread()


class Hold:
    """Be the context manager that ``LockFacet.hold`` gives; each use of it, in whatever thread, acquires anew."""

    def __init__(self, facet: LockFacet, key: str, seconds: float, wait: float) -> None:
        self._facet, self._key, self._seconds, self._wait = facet, key, seconds, wait
        self._held: list[HeldLock] = []

    def _enter(self) -> Flow[HeldLock]:
        token, give_up, pause = new_token(), time.monotonic() + self._wait, 0.02
        # Asked before: between the lock and the block nothing may wait, for a cancellation there would leave it locked.
        renews = yield from self._facet.primitives.can_renew()
        try:
            while (lock := (yield from self._facet.acquire_as_flow(self._key, self._seconds, token))) is None:
                left = give_up - time.monotonic()
                if left <= 0:
                    raise LockNotAcquired(f"the lock {self._key!r} is held by another; the body was not run")
                yield from Pause(min(left, pause * random.uniform(0.5, 1)))  # noqa: S311
                pause = min(pause * 1.5, 0.5)
            if not lock.expires_in:
                raise StoreUnavailable(f"the store took longer than the lock {self._key!r} would have lived")
        except LockNotAcquired:
            raise
        except (Exception, asyncio.CancelledError, KeyboardInterrupt):
            # The answer is lost, but the lock may have been granted: nobody would ever release it.
            with suppress(Exception):
                yield from self._facet._release(self._key, token)
            raise
        held = HeldLock(self._facet, lock, self._seconds)
        self._held.append(held)
        if renews:
            renewer.add(held)
        return held

    def _exit(self, failed: bool) -> Flow[None]:
        me = caller()
        held = ([held for held in tuple(self._held) if held.owner == me] or self._held)[-1]
        self._held.remove(held)
        renewer.remove(held)
        lost = held.lost
        if failed:
            with suppress(Exception):  # the body's own exception is the one to tell
                yield from self._facet._release(held.key, held.token)
        elif not (yield from self._facet._release(held.key, held.token)) or lost:
            raise LockLost(f"the lock {held.key!r} was lost while it was held: the body may have run beside another")

    def __enter__(self) -> HeldLock:
        return run(self._enter())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        run(self._exit(kind is not None))

    async def __aenter__(self) -> HeldLock:
        return await arun(self._enter())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await arun(self._exit(kind is not None))
