"""How a user's function is called, whichever of the two forms it and its caller have."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async

from ..exceptions import StepTimeout
from ..flow import Action


class Invoke(Action[Any]):
    """Call a user's function. No connection, transaction or lock of ours is held meanwhile.

    ``timeout`` seconds end an async function with ``StepTimeout``; nothing can end one that blocks.
    """

    __slots__ = ("_args", "_function", "_kwargs", "_timeout")

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        self._function, self._args, self._kwargs, self._timeout = function, args, kwargs or {}, timeout

    def run(self) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return async_to_sync(self._awaited)()
        return self._function(*self._args, **self._kwargs)

    async def arun(self) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._awaited()
        return await sync_to_async(self._function, thread_sensitive=True)(*self._args, **self._kwargs)

    async def _awaited(self) -> Any:
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await self._function(*self._args, **self._kwargs)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the function's own
            raise StepTimeout(f"{self._function.__name__!r} ran longer than its timeout, and was ended") from error
