"""Every operation is one round trip, in both forms, and a lost answer is told instead of being asked for again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync

from django_statestore import Store
from django_statestore.exceptions import OutcomeUnknown, StoreUnavailable

from .operations import READS, WRITES, Describe, prepared
from .proxy import Loss, Proxy

forms = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def do(
    store: Store, operation: Describe, made: dict[str, Any], asynchronous: bool, before: Callable[[], object]
) -> Any:
    """Do an operation over a connection that is open already; call ``before`` just before it."""
    method, *arguments = operation(store, made)
    if not asynchronous:
        store.kv.get("open")
        before()
        return method(*arguments)

    async def main() -> Any:
        await store.kv.aget("open")
        before()
        return await getattr(method.__self__, f"a{method.__name__}")(*arguments)

    return async_to_sync(main)()


@forms
@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_an_operation_is_one_round_trip(store: Store, far: Store, proxy: Proxy, name: str, asynchronous: bool) -> None:
    operation = (READS | WRITES)[name]
    made = prepared(store)
    method, *arguments = operation(store.namespace("once before"), made)
    method(*arguments)  # the server knows the script now
    turns: list[int] = []
    do(far, operation, made, asynchronous, lambda: turns.append(proxy.turns))
    assert proxy.turns - turns[0] == 1


@forms
def test_a_script_that_the_server_has_forgotten_is_sent_whole_in_the_same_call(
    far: Store, proxy: Proxy, raw: redis.Redis, asynchronous: bool
) -> None:
    turns: list[int] = []

    def forget() -> None:
        raw.script_flush()
        turns.append(proxy.turns)

    operation: Describe = lambda store, made: (store.lock.acquire, "k")  # noqa: E731
    assert do(far, operation, {}, asynchronous, forget) is not None
    assert proxy.turns - turns[0] == 2
    turns.clear()
    assert do(far, operation, {}, asynchronous, lambda: turns.append(proxy.turns)) is None
    assert proxy.turns - turns[0] == 1


# -- what is lost -----------------------------------------------------------------------------------------------------


@forms
@pytest.mark.parametrize("loss", ["request", "answer"])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_was_not_answered_is_told_and_never_repeated(
    store: Store, far: Store, proxy: Proxy, name: str, loss: Loss, asynchronous: bool
) -> None:
    made = prepared(store)
    requests: list[int] = []

    def lose() -> None:
        requests.append(proxy.requests)
        proxy.lose = [loss]

    with pytest.raises(OutcomeUnknown, match="may or may not have taken effect"):
        do(far, WRITES[name], made, asynchronous, lose)
    assert proxy.requests - requests[0] == 1


@forms
def test_a_lost_answer_doubles_nothing(store: Store, far: Store, proxy: Proxy, asynchronous: bool) -> None:
    def append(store: Any, made: Any) -> tuple[Any, ...]:
        return (store.list.append, "l", "x")

    for loss, length in (("request", 0), ("answer", 1), ("answer", 2), ("request", 2)):
        with pytest.raises(OutcomeUnknown):
            do(far, append, {}, asynchronous, lambda loss=loss: proxy.lose.append(loss))  # type: ignore[misc]
        assert store.list.length("l") == length


@forms
@pytest.mark.parametrize("loss", ["request", "answer"])
@pytest.mark.parametrize("name", READS)
def test_a_read_that_was_not_answered_is_repeated_once(
    store: Store, far: Store, proxy: Proxy, name: str, loss: Loss, asynchronous: bool
) -> None:
    made = prepared(store)
    method, *arguments = READS[name](store, made)
    expected = method(*arguments)
    assert do(far, READS[name], made, asynchronous, lambda: proxy.lose.append(loss)) == expected
    with pytest.raises(StoreUnavailable, match=r"does not answer|cannot be reached"):
        do(far, READS[name], made, asynchronous, lambda: proxy.lose.extend([loss, loss]))
    proxy.lose.clear()
    assert do(far, READS[name], made, asynchronous, lambda: None) == expected


@forms
@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_a_connection_that_the_server_closed_is_replaced_unnoticed(
    store: Store, far: Store, proxy: Proxy, name: str, asynchronous: bool
) -> None:
    made = prepared(store)
    do(far, (READS | WRITES)[name], made, asynchronous, proxy.hang_up)
