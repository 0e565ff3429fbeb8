"""One test body for both forms of an operation."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeAlias, TypeVar

from asgiref.sync import async_to_sync, sync_to_async

from ...flow import Flow, arun, run

P = ParamSpec("P")
T = TypeVar("T")

Bound: TypeAlias = Callable[..., Any] | partial[Any]

_PATIENCE = 60.0


class Call:
    """Call an operation, or the twin with an `a` before its name: `call(store.kv.get, "k")`."""

    def __init__(self, *, asynchronous: bool) -> None:
        self.asynchronous = asynchronous

    def __call__(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if not self.asynchronous:
            return operation(*args, **kwargs)
        # Blocking code below the twin comes back to this thread, so it is on this test's connection and transaction.
        result: T = async_to_sync(_twin(operation))(*args, **kwargs)
        return result

    def flow(self, flow: Flow[T]) -> T:
        """Drive a flow in this form."""
        return async_to_sync(arun)(flow) if self.asynchronous else run(flow)

    def block(self, manager: Any, body: Callable[[Any], T]) -> T:
        """Run a blocking ``body`` inside ``with manager``, or ``async with``; give it what the block gives."""
        if not self.asynchronous:
            with manager as entered:
                return body(entered)

        async def main() -> T:
            async with manager as entered:
                return await sync_to_async(body)(entered)

        return async_to_sync(main)()

    def at_once(self, operations: Sequence[partial[T]], ended: Callable[[], None]) -> list[T]:
        """Make calls at the same moment, each in its own thread or as its own coroutine; return all results in order.

        ``ended`` is called in each thread at its end.
        """
        if not self.asynchronous:
            return at_once(operations, ended)

        async def main() -> list[T]:
            calls = (_twin(each.func)(*each.args, **each.keywords) for each in operations)
            return list(await asyncio.gather(*calls))

        results: list[T] = async_to_sync(main)()
        return results


def _twin(operation: Callable[..., Any]) -> Callable[..., Any]:
    assert inspect.ismethod(operation), "only a bound method has a twin"
    twin: Callable[..., Any] = getattr(operation.__self__, f"a{operation.__name__}")
    return twin


def at_once(functions: Sequence[Callable[[], T]], ended: Callable[[], None]) -> list[T]:
    """Run each function in a thread of its own, begun at the same moment; return all results, or raise the first error.

    ``ended`` is called in each thread at its end.
    """
    barrier, errors = threading.Barrier(len(functions)), list[BaseException]()
    results: dict[int, T] = {}

    def work(number: int) -> None:
        try:
            barrier.wait(_PATIENCE)
            results[number] = functions[number]()
        except BaseException as error:
            errors.append(error)
        finally:
            ended()

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(functions))]
