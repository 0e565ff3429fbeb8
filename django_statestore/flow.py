"""How an operation is written once and serves both forms, ``get`` and ``aget``.

An operation is a generator, a *flow*, that yields *actions* and is sent their results. An action knows how to be done
by a blocking caller and by an event loop; a flow does not know which of the two drives it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from asgiref.sync import sync_to_async

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")


class Action(ABC, Generic[T]):
    """Be one thing to do that may block; inside a flow, ``reply = yield from action``."""

    __slots__ = ()

    @abstractmethod
    def run(self) -> T:
        """Do it, blocking."""

    @abstractmethod
    async def arun(self) -> T:
        """Do it without blocking the event loop."""

    def __iter__(self) -> Generator[Action[Any], Any, T]:
        return (yield self)  # type: ignore[no-any-return]


Flow: TypeAlias = Generator[Action[Any], Any, T]


class Call(Action[T]):
    """Call a blocking function; from an event loop, in the thread that holds the request's database connections."""

    __slots__ = ("_args", "_function")

    def __init__(self, function: Callable[..., T], *args: Any) -> None:
        self._function, self._args = function, args

    def run(self) -> T:
        return self._function(*self._args)

    async def arun(self) -> T:
        return await sync_to_async(self._function, thread_sensitive=True)(*self._args)


class Pause(Action[None]):
    """Wait some seconds. An event loop goes on meanwhile: no waiting loop ever wraps a blocking wait."""

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self) -> None:
        time.sleep(self._seconds)

    async def arun(self) -> None:
        await asyncio.sleep(self._seconds)


def run(flow: Flow[T]) -> T:
    """Drive a flow to its end and return its result; an action's exception is raised inside the flow."""
    try:
        action = next(flow)
        while True:
            try:
                reply = action.run()
            except BaseException as error:
                action = flow.throw(error)
            else:
                action = flow.send(reply)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


async def arun(flow: Flow[T]) -> T:
    """Do the same from an event loop; a cancellation is raised inside the flow, which may still clean up."""
    try:
        action = next(flow)
        while True:
            try:
                reply = await action.arun()
            except BaseException as error:
                action = flow.throw(error)
            else:
                action = flow.send(reply)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def both(
    describe: Callable[Concatenate[S, P], Flow[T]],
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """Make the two public methods of an operation from its flow: ``get, aget = both(_get)``."""

    def blocking(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(describe(self, *args, **kwargs))

    async def awaitable(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await arun(describe(self, *args, **kwargs))

    name = describe.__name__.lstrip("_")
    described = inspect.signature(describe)
    returns = str(described.return_annotation).removeprefix("Flow[").removesuffix("]")
    for method, public in ((blocking, name), (awaitable, f"a{name}")):
        functools.update_wrapper(method, describe)
        method.__name__ = public
        method.__qualname__ = describe.__qualname__.replace(describe.__name__, public)
        method.__signature__ = described.replace(return_annotation=returns)  # type: ignore[union-attr]
    return blocking, awaitable
