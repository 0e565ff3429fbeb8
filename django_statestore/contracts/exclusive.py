"""The exclusive lease on a task id while a block runs."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import TypeAlias, cast

from ..exceptions import LeaseLost, StoreUnavailable, TaskBusy
from ..flow import Flow, Pause, arun, run
from ..keys import Entry
from ..renewer import Renewable, renewer
from .durable import Durable, DurablePrimitives
from .tokens import new_token, token_digest

_Key: TypeAlias = tuple[int, bytes]

_held: ContextVar[dict[_Key, HeldTask] | None] = ContextVar("statestore_exclusive", default=None)


def held_here(backend: DurablePrimitives, entry: Entry) -> HeldTask | None:
    """Return the lease that this flow (thread or asyncio task) holds on the entry."""
    return (_held.get() or {}).get((id(backend), entry.digest))


class HeldTask(Renewable):
    """Be the lease inside an ``exclusive`` block."""

    def __init__(self, durable: Durable, task: str, token: str, fence: int, seconds: float, started: float) -> None:
        super().__init__(seconds, started)
        self.id, self.token, self.fence = task, token, fence
        self._backend = durable.primitives
        self._renewal = (durable.entry(task), token_digest(token), round(seconds * 1000))

    def __repr__(self) -> str:
        return f"<HeldTask id={self.id!r} fence={self.fence} lost={self.lost}>"

    def check(self) -> None:
        """Raise ``LeaseLost`` if the lease is lost. Asks no store: the renewing thread already did."""
        if self.lost:
            raise LeaseLost(f"the lease on the task {self.id!r} was lost")

    @property
    def group(self) -> tuple[int, str]:
        return (id(self._backend), "durable")

    def renew_all(self, leases: Sequence[Renewable]) -> list[bool]:
        return self._backend.durable_renew([cast(HeldTask, lease)._renewal for lease in leases]).run()

    def close(self) -> None:
        self._backend.release_thread()


class Exclusive:
    """Be the context manager that ``Durable.exclusive`` gives. It is used once."""

    def __init__(self, durable: Durable, task: str, wait: float, lease: float) -> None:
        self._durable, self._task, self._wait, self._lease = durable, task, wait, lease
        self._key: _Key = (id(durable.primitives), durable.entry(task).digest)

    def _enter(self) -> Flow[HeldTask]:
        # Asked before: between the claim and the block nothing may wait, for a cancellation there would leave it held.
        renews = yield from self._durable.primitives.can_renew()
        token = new_token()
        try:
            held = yield from self._claimed(token)
        except TaskBusy:
            raise
        except (Exception, asyncio.CancelledError, KeyboardInterrupt):
            # The answer is lost, but the lease may have been granted: nobody would ever give it back.
            with suppress(Exception):
                yield from self._durable._release(self._task, token)
            raise
        _held.set({**(_held.get() or {}), self._key: held})
        if renews:
            renewer.add(held)
        return held

    def _claimed(self, token: str) -> Flow[HeldTask]:
        give_up, pause = time.monotonic() + self._wait, 0.02
        while True:
            started = time.monotonic()
            claim = yield from self._durable.claim_as_flow(self._task, self._lease, token)
            if claim is not None:
                break
            left = give_up - started
            if left <= 0:
                raise TaskBusy(f"the task {self._task!r} is held by another; the body was not run")
            yield from Pause(min(left, pause * random.uniform(0.5, 1)))  # noqa: S311
            pause = min(pause * 1.5, 0.5)
        held = HeldTask(self._durable, self._task, token, claim.fence, self._lease, started)
        if held.lost:
            raise StoreUnavailable(f"the store took longer than the lease on {self._task!r} would have lived")
        return held

    def _refuse_nesting(self) -> None:
        if self._key in (_held.get() or {}):
            raise TaskBusy(f"the task {self._task!r} is already held by this flow: it would wait for itself")

    def _exit(self, failed: bool) -> Flow[None]:
        leases = dict(_held.get() or {})
        held = leases.pop(self._key)
        _held.set(leases)
        renewer.remove(held)
        if failed:
            with suppress(Exception):
                yield from self._durable._release(self._task, held.token)
        elif not (yield from self._durable._release(self._task, held.token)):
            raise LeaseLost(f"the lease on the task {self._task!r} was lost while it was held")

    def __enter__(self) -> HeldTask:
        self._refuse_nesting()
        return run(self._enter())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        run(self._exit(kind is not None))

    async def __aenter__(self) -> HeldTask:
        self._refuse_nesting()
        return await arun(self._enter())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await arun(self._exit(kind is not None))
