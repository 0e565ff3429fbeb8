"""How a step function is called, whichever of the two forms it and its caller have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async

from ..flow import Action


class Invoke(Action[Any]):
    """Call a user's function. No connection, transaction or lock of ours is held meanwhile."""

    __slots__ = ("_args", "_function")

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._function, self._args = function, args

    def run(self) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return async_to_sync(self._function)(*self._args)
        return self._function(*self._args)

    async def arun(self) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*self._args)
        return await sync_to_async(self._function, thread_sensitive=True)(*self._args)
