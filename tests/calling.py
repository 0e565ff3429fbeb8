"""One test body for both forms of an operation."""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import async_to_sync

P = ParamSpec("P")
T = TypeVar("T")


class Call:
    """Call an operation, or the twin with an `a` before its name: `call(store.kv.get, "k")`."""

    def __init__(self, *, asynchronous: bool) -> None:
        self.asynchronous = asynchronous

    def __call__(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if not self.asynchronous:
            return operation(*args, **kwargs)
        assert inspect.ismethod(operation), "only a bound method has a twin"
        twin: Any = getattr(operation.__self__, f"a{operation.__name__}")
        # Blocking code below the twin comes back to this thread, so it is on this test's connection and transaction.
        result: T = async_to_sync(twin)(*args, **kwargs)
        return result
