"""A claim that is confirmed by the clean end of a block."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from ..exceptions import ClaimLost
from ..flow import Flow, arun, run
from ..ttl import Duration
from .caller import caller

if TYPE_CHECKING:
    from .dedup import Claim, Dedup


class Once:
    """Be the context manager that ``Dedup.once`` gives; each use of it, in whatever thread, claims anew."""

    def __init__(self, facet: Dedup, key: str, ttl: Duration, lease: Duration) -> None:
        self._facet, self._key, self._ttl, self._lease = facet, key, ttl, lease
        self._claims: list[tuple[Hashable, Claim]] = []

    def _enter(self) -> Flow[Claim]:
        claim = yield from self._facet._claim(self._key, self._ttl, self._lease)
        self._claims.append((caller(), claim))
        return claim

    def _exit(self, failed: bool) -> Flow[None]:
        me = caller()
        mine = ([each for each in tuple(self._claims) if each[0] == me] or self._claims)[-1]
        self._claims.remove(mine)
        _, claim = mine
        if not claim:
            return
        if failed:
            with suppress(Exception):  # the body's own error is the one to see; the lease ends by itself
                yield from claim._forget()
        elif not (yield from claim._confirm()):
            raise ClaimLost(f"the claim on {self._key!r} ran out before its end: another may have handled it too")

    def __enter__(self) -> Claim:
        return run(self._enter())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        run(self._exit(kind is not None))

    async def __aenter__(self) -> Claim:
        return await arun(self._enter())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await arun(self._exit(kind is not None))
