"""Operations are written once and serve both forms: what a flow may count on, and what its two methods look like."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from asgiref.sync import async_to_sync

from django_statestore import stores
from django_statestore.flow import Call, Flow, Pause, arun, both, run

T = TypeVar("T")
Drive = Callable[[Flow[Any]], Any]


@pytest.fixture(params=["sync", "async"])
def drive(request: pytest.FixtureRequest) -> Drive:
    """Run a flow to its end in one form or the other."""
    return run if request.param == "sync" else async_to_sync(arun)


def fail(error: BaseException) -> Any:
    raise error


# -- driving a flow ---------------------------------------------------------------------------------------------------


def test_a_flow_is_sent_what_its_actions_return(drive: Drive) -> None:
    def flow() -> Flow[list[int]]:
        first = yield from Call(lambda: 1)
        second = yield from Call(lambda a, b: a + b, first, 1)
        yield from Pause(0)
        return [first, second]

    assert drive(flow()) == [1, 2]


def test_a_flow_without_actions_just_returns(drive: Drive) -> None:
    def flow(waits: bool) -> Flow[str]:
        if waits:
            yield from Pause(0)
        return "result"

    assert drive(flow(waits=False)) == "result"


def test_flows_nest(drive: Drive) -> None:
    def inner(number: int) -> Flow[int]:
        return (yield from Call(lambda: number * 2))

    def outer() -> Flow[int]:
        return (yield from inner((yield from inner(1))))

    assert drive(outer()) == 4


def test_an_exception_of_an_action_is_raised_where_the_flow_waits(drive: Drive) -> None:
    def flow() -> Flow[str]:
        try:
            yield from Call(fail, ValueError("inner"))
        except ValueError as error:
            reply = yield from Call(lambda: "mended")
            return f"{error} {reply}"
        return "not reached"

    assert drive(flow()) == "inner mended"


def test_an_exception_that_a_flow_lets_pass_reaches_the_caller(drive: Drive) -> None:
    cleaned: list[str] = []

    def flow() -> Flow[None]:
        try:
            yield from Call(fail, ValueError("text"))
        finally:
            yield from Call(cleaned.append, "up")

    with pytest.raises(ValueError, match="text"):
        drive(flow())
    assert cleaned == ["up"]


def test_an_exception_from_a_clean_up_replaces_the_first_one(drive: Drive) -> None:
    def flow() -> Flow[None]:
        try:
            yield from Call(fail, ValueError("first"))
        finally:
            yield from Call(fail, KeyError("second"))

    with pytest.raises(KeyError) as caught:
        drive(flow())
    assert isinstance(caught.value.__context__, ValueError)


def test_an_exception_before_the_first_action_reaches_the_caller(drive: Drive) -> None:
    def flow(number: int) -> Flow[None]:
        if number < 0:
            raise ValueError("at once")
        yield from Pause(number)

    with pytest.raises(ValueError, match="at once"):
        drive(flow(-1))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_what_is_no_exception_passes_through_a_flow_too(error: BaseException) -> None:
    cleaned: list[str] = []

    def flow() -> Flow[None]:
        try:
            yield from Call(fail, error)
        finally:
            yield from Call(cleaned.append, "up")

    with pytest.raises(type(error)):
        run(flow())
    assert cleaned == ["up"]


def test_a_stop_iteration_of_an_action_is_not_taken_for_the_result() -> None:
    def flow() -> Flow[Any]:
        return (yield from Call(next, iter(())))

    with pytest.raises(RuntimeError, match="StopIteration"):
        run(flow())


# -- the event loop ---------------------------------------------------------------------------------------------------


def test_a_cancellation_is_raised_in_the_flow_which_may_still_clean_up() -> None:
    cleaned: list[str] = []

    def flow() -> Flow[None]:
        try:
            yield from Pause(60)
        except asyncio.CancelledError:
            yield from Call(cleaned.append, "up")
            raise

    async def cancel() -> None:
        task = asyncio.create_task(arun(flow()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(cancel())
    assert cleaned == ["up"]


def test_a_pause_lets_the_event_loop_go_on() -> None:
    async def main() -> float:
        started = time.monotonic()
        await asyncio.gather(*(arun(paused()) for _ in range(20)))
        return time.monotonic() - started

    def paused() -> Flow[None]:
        yield from Pause(0.1)

    assert asyncio.run(main()) < 1


def test_a_blocking_call_does_not_run_on_the_event_loop_but_where_django_keeps_connections() -> None:
    def flow() -> Flow[threading.Thread]:
        return (yield from Call(threading.current_thread))

    async def main() -> list[threading.Thread]:
        return [threading.current_thread(), *[await arun(flow()) for _ in range(3)]]

    loop, *others = asyncio.run(main())
    assert loop not in others
    assert len(set(others)) == 1


# -- the two methods --------------------------------------------------------------------------------------------------


class Sample:
    def _echo(self, value: int, twice: bool = False) -> Flow[list[int]]:
        """Return the value in a list."""
        return (yield from Call(lambda: [value] * (2 if twice else 1)))

    echo, aecho = both(_echo)


def test_both_forms_take_the_same_arguments() -> None:
    sample = Sample()
    assert sample.echo(1, twice=True) == async_to_sync(sample.aecho)(1, twice=True) == [1, 1]
    with pytest.raises(TypeError):
        sample.echo()  # type: ignore[call-arg]


def test_both_forms_look_as_if_written_by_hand() -> None:
    assert (Sample.echo.__name__, Sample.aecho.__name__) == ("echo", "aecho")
    assert (Sample.echo.__qualname__, Sample.aecho.__qualname__) == ("Sample.echo", "Sample.aecho")
    assert Sample.echo.__doc__ == Sample.aecho.__doc__ == "Return the value in a list."
    for method in (Sample.echo, Sample.aecho):
        assert str(inspect.signature(method)).replace("'", "") == "(self, value: int, twice: bool = False) -> list[int]"
    assert inspect.iscoroutinefunction(Sample.aecho)
    assert not inspect.iscoroutinefunction(Sample.echo)
    assert not inspect.isgeneratorfunction(Sample.echo)


FACETS = ["kv", "lock", "dedup", "spool"]


def public(facet: object) -> list[str]:
    own = [
        name for name in dir(type(facet)) if not name.startswith("_") and inspect.isfunction(getattr(type(facet), name))
    ]
    return [name for name in own if not name.endswith("_as_flow") and hasattr(facet, f"a{name}")]


@pytest.mark.parametrize("name", FACETS)
def test_every_operation_has_a_twin_with_the_same_signature_and_docstring(name: str) -> None:
    facet = getattr(stores["default"], name)
    operations = public(facet)
    assert {"size", "clear", "scan", "delete"} & set(operations)
    for operation in operations:
        method, twin = getattr(facet, operation), getattr(facet, f"a{operation}")
        assert inspect.iscoroutinefunction(twin), operation
        assert inspect.signature(method) == inspect.signature(twin)
        assert "Flow" not in str(inspect.signature(method))
        assert method.__doc__ == twin.__doc__
        assert (method.__doc__ or "").strip(), operation


@pytest.mark.parametrize(
    ("path", "signature"),
    [
        ("kv.get", "(key: str, default: Any = None) -> Any"),
        ("kv.set", "(key: str, value: Any, ttl: Duration | None = None) -> None"),
        ("kv.add", "(key: str, value: Any, ttl: Duration | None = None) -> bool"),
        ("kv.consume", "(key: str, default: Any = None) -> Any"),
        ("kv.delete", "(key: str) -> bool"),
        ("kv.touch", "(key: str, ttl: Duration | None) -> bool"),
        ("kv.scan", "(prefix: str = '', cursor: str | None = None, limit: int = 100) -> Page"),
        ("lock.acquire", "(key: str, ttl: Duration = 30) -> Lock | None"),
        ("lock.release", "(key: str, token: str) -> bool"),
        ("lock.extend", "(key: str, token: str, ttl: Duration) -> bool"),
        ("lock.force_release", "(key: str) -> bool"),
        ("lock.hold", "(key: str, ttl: Duration = 30, wait: Duration = 0) -> Hold"),
        ("dedup.seen", "(key: str, ttl: Duration) -> bool"),
        ("dedup.claim", "(key: str, ttl: Duration, lease: Duration = 60) -> Claim"),
        ("dedup.confirm", "(key: str, token: str) -> bool"),
        ("dedup.forget", "(key: str, token: str) -> bool"),
    ],
)
def test_signatures_are_those_of_the_design(path: str, signature: str) -> None:
    facet, operation = path.split(".")
    shown = inspect.signature(getattr(getattr(stores["default"], facet), operation), eval_str=False)
    parameters = [str(each).replace("'", "") for each in shown.parameters.values()]
    wanted = signature.replace("''", "")
    assert f"({', '.join(parameters)}) -> {shown.return_annotation!s}" == wanted
