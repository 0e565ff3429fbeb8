"""What the primitives of all facets in memory are made of: one short moment under the lock each, at one instant."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from ...exceptions import StoreUnavailable
from ...flow import Action
from .memory import Memory

T = TypeVar("T")
P = ParamSpec("P")
Self = TypeVar("Self", bound="MemoryPrimitives")


class Immediate(Action[T]):
    """Do what takes no time and waits for nothing; an event loop does it on the spot."""

    __slots__ = ("_work",)

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work

    def run(self) -> T:
        return self._work()

    async def arun(self) -> T:
        return self._work()


class MemoryPrimitives:
    """Give the mixins of the facets their memory."""

    memory: Memory

    def can_renew(self) -> Action[bool]:
        return Immediate(lambda: True)

    def release_thread(self) -> None:
        pass


Primitive = Callable[Concatenate[Self, int, P], T]
ActionPrimitive = Callable[Concatenate[Self, P], Action[T]]


def alone(memory: Memory, work: Callable[[int], T], *, tidies: bool) -> T:
    """Do ``work``, given the instant, while nobody else looks at or changes the memory."""
    with memory.lock:
        if memory.busy:
            raise StoreUnavailable(
                "a signal handler or finalizer called the store while it interrupted an operation of the same thread: "
                "let it set a flag, and act on that later"
            )
        try:
            memory.busy = True
            if memory.torn:
                memory.mend()
            memory.torn = True  # until it ends: an exception out of a signal handler may come anywhere
            now = memory.clock.now()
            if tidies:
                memory.tidy(now)
            result = work(now)
            memory.torn = False
            return result
        finally:
            memory.busy = False


def _unit(function: Primitive[Self, P, T], *, tidies: bool) -> ActionPrimitive[Self, P, T]:
    def primitive(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> Action[T]:
        def work(now: int) -> T:
            return function(self, now, *args, **kwargs)

        return Immediate(lambda: alone(self.memory, work, tidies=tidies))

    functools.update_wrapper(primitive, function)
    return primitive


def reads(function: Primitive[Self, P, T]) -> ActionPrimitive[Self, P, T]:
    """Make a primitive of a method that only looks; it is given the instant."""
    return _unit(function, tidies=False)


def writes(function: Primitive[Self, P, T]) -> ActionPrimitive[Self, P, T]:
    """Make a primitive of a method that changes something; what is dead is cleared away meanwhile, bit by bit."""
    return _unit(function, tidies=True)
