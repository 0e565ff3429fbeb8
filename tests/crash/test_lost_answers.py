"""The connection breaks around a statement: at most one of those that are sent takes effect, and the worker goes on."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

import pytest
from django.conf import settings
from django.db import connections

from django_statestore import stores
from django_statestore.durable import TaskHandle
from django_statestore.exceptions import OutcomeUnknown
from django_statestore.flow import Call, Flow
from django_statestore.testing import CrashPoints
from tests.crash.checks import check_arrived, killed_at
from tests.crash.forks import LEASE, configure, die
from tests.crash.journey import JOURNEYS, START, Trip
from tests.crash.ledger import Ledger, Outside
from tests.crash.proxy import Loss, Proxy, through_proxy
from tests.crash.travels import points_of, travel
from tests.processes import Processes

T = TypeVar("T")

ALIAS = "postgres"
LOSSES: tuple[Loss, ...] = get_args(Loss)

pytestmark = [
    pytest.mark.skipif(ALIAS not in settings.STATESTORES, reason="there is no PostgreSQL"),
    pytest.mark.django_db(databases="__all__", transaction=True),
]


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with tempfile.TemporaryDirectory() as folder, through_proxy(ALIAS, Path(folder)) as between:  # a short path
        yield between


def drive(flow: Flow[T], proxy: Proxy, number: int, loss: Loss) -> T:
    """Drive a flow as `flow.run` does, and lose a message of call `number` of those that send one."""
    sent = 0
    try:
        action = next(flow)
        while True:
            requests = proxy.requests
            proxy.lose = loss if isinstance(action, Call) and sent == number else None
            try:
                reply = action.run()
            except BaseException as error:
                action = flow.throw(error)
            else:
                action = flow.send(reply)
            finally:
                sent += proxy.requests > requests
    except StopIteration as stop:
        assert proxy.lose is None, f"it sent no message for call {number}"
        return stop.value  # type: ignore[no-any-return]


def sending_calls(flow: Flow[Any], proxy: Proxy) -> int:
    """Drive a flow and return how many of its calls sent a message."""
    sent = 0
    try:
        action = next(flow)
        while True:
            requests = proxy.requests
            reply = action.run()
            sent += proxy.requests > requests
            action = flow.send(reply)
    except StopIteration:
        return sent


def travelling(ledger: Ledger, namespace: str = "") -> Flow[TaskHandle[Trip]]:
    outside = Outside(ledger, CrashPoints())
    return JOURNEYS[ALIAS]._run(ledger.path.name, namespace=[namespace] if namespace else [], app=outside)


def test_lost_at_every_call_of_a_journey(proxy: Proxy, tmp_path: Path) -> None:
    journey, runs = JOURNEYS[ALIAS], 0
    journey.start(START, task_id="whole")
    calls = sending_calls(travelling(Ledger(tmp_path / "whole")), proxy)
    for loss in LOSSES:
        for number in range(calls):
            ledger = Ledger(tmp_path / f"{loss}-{number}")
            journey.start(START, task_id=ledger.path.name)
            with killed_at(f"{loss} {number}"):
                handle = drive(travelling(ledger), proxy, number, loss)
                check_arrived(handle, ledger, deaths=0)  # not one attempt is lost
            runs += 1
    print(f"lost a message {runs} times")  # noqa: T201


@pytest.mark.parametrize("loss", LOSSES)
def test_lost_start(proxy: Proxy, loss: Loss) -> None:
    journey = JOURNEYS[ALIAS]
    connections[ALIAS].ensure_connection()
    with pytest.raises(OutcomeUnknown):
        drive(journey._start(START, task_id="t"), proxy, 0, loss)
    assert journey.start(START, task_id="t").record.save_seq == 0
    assert drive(journey._start(START, task_id="t"), proxy, 1, loss).status == "ready"


@pytest.mark.parametrize("loss", LOSSES)
def test_lost_in_a_transaction_of_the_store_s_own(proxy: Proxy, loss: Loss) -> None:
    """Django has a new connection by the end of the block: that it works says nothing of the one before."""
    queue, unknown = stores[ALIAS].queue, 0
    queue.enqueue("q", "first")
    for spared in range(20):
        proxy.lose, proxy.spared = loss, spared
        before = queue_depth(proxy)
        try:
            queue.enqueue("q", spared)
        except OutcomeUnknown:
            unknown += 1
            assert queue_depth(proxy) in (before, before + 1)
        else:
            break
    else:
        pytest.fail("there is no end to its messages")
    assert unknown >= 3


def queue_depth(proxy: Proxy) -> int:
    """Return the depth of the queue; nothing is lost meanwhile."""
    wanted, proxy.lose = proxy.lose, None
    depth = stores[ALIAS].queue.depth("q")
    proxy.lose = wanted
    return depth


# -- the worker that comes after a dead one ---------------------------------------------------------------------------


def leave_dead(folder: Path, calls: int) -> list[tuple[str, str]]:
    """Let workers die in their steps, one for each message that is to be lost; return namespaces and points."""
    configure()
    dead = []
    for number, name in enumerate(points_of(ALIAS, f"{folder.name}-whole", Ledger(folder / "whole"))):
        if name.startswith("inside") and "turn 1" in name:
            for call in range(calls):
                for loss in LOSSES:
                    namespace = f"{folder.name}-{number}-{call}-{loss}"
                    die(lambda: travel(ALIAS, namespace, Ledger(folder / namespace), CrashPoints(number)), name)  # noqa: B023
                    dead.append((namespace, name))
    return dead


def test_lost_by_the_successor(processes: Processes, proxy: Proxy, tmp_path: Path) -> None:
    dead = processes.start(leave_dead, tmp_path, 4).result()
    left_off = 0
    for namespace, point in dead:
        _, _, call, loss = namespace.rsplit("-", 3)
        ledger = Ledger(tmp_path / namespace)
        store = stores[ALIAS].namespace(namespace)
        with killed_at(point, f"{loss} {call}"):
            store.backend.age(store.durable.entry("x").namespace, LEASE * 1000)
            try:
                handle = drive(travelling(ledger, namespace), proxy, int(call), loss)
            except OutcomeUnknown:  # the entry after "not done" is not sent again: another asks once more
                left_off += 1
                assert ledger.lines("asked")[-1].detail == "not done"
                handle = travel(ALIAS, namespace, ledger, CrashPoints(), aged=LEASE)
                check_arrived(handle, ledger, deaths=2, unused=1)
            else:
                check_arrived(handle, ledger, deaths=1, unused=0)
    print(f"lost a message {len(dead)} times after a death; {left_off} workers left off")  # noqa: T201
