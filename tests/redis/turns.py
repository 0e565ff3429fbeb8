"""How many round trips each of some operations takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asgiref.sync import async_to_sync

from django_statestore import Store

from .proxy import Proxy


def count_turns(
    proxy: Proxy, far: Store, operations: Sequence[tuple[Any, str, tuple[Any, ...]]], asynchronous: bool
) -> list[int]:
    """Do operations (an object, a method, arguments) one after the other; the connection is open before."""
    counted = []

    async def main() -> None:
        await far.kv.aget("open")
        for target, name, arguments in operations:
            before = proxy.turns
            await getattr(target, f"a{name}")(*arguments)
            counted.append(proxy.turns - before)

    if asynchronous:
        async_to_sync(main)()
        return counted
    far.kv.get("open")
    for target, name, arguments in operations:
        before = proxy.turns
        getattr(target, name)(*arguments)
        counted.append(proxy.turns - before)
    return counted
