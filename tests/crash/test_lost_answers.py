"""The connection breaks around a statement: at most one of those that are sent takes effect, and the worker goes on."""

import itertools
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar, get_args

import pytest
from django.conf import settings
from django.db import DatabaseError, connections

from django_statestore import stores
from django_statestore.durable import TaskHandle
from django_statestore.exceptions import OutcomeUnknown, StateStoreError
from django_statestore.flow import Call, Flow
from django_statestore.testing import CrashPoints
from tests.crash.checks import check_arrived, killed_at
from tests.crash.forks import LEASE, configure, die
from tests.crash.journey import JOURNEYS, START, Trip
from tests.crash.ledger import Ledger, Outside
from tests.crash.logbook import check_home
from tests.crash.proxy import Loss, Proxy, through_proxy
from tests.crash.sailings import sail
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


# -- calls, atomic steps, waits and signals ---------------------------------------------------------------------------


class Losing:
    """Lose message ``number`` of all that is sent while one of these is entered; once."""

    def __init__(self, proxy: Proxy, loss: Loss, number: int) -> None:
        self._proxy, self._loss, self._left, self.lost = proxy, loss, number, False

    def __enter__(self) -> None:
        if not self.lost:
            self._proxy.lose, self._proxy.spared = self._loss, self._left

    def __exit__(self, *args: object) -> None:
        self.lost = self.lost or self._proxy.lose is None
        self._proxy.lose, self._left = None, self._proxy.spared


LEAVE_OFF = {
    "connect": "nothing was asked yet",
    "task_start": "who starts a task starts it again",
    "task_request": "who sends a signal sends it again, with its key",
    "spool_store": "a call was made whose large result is not kept: the step raises",
    "inside an atomic step": "it is rolled back, and raises",
    "COMMIT of an atomic step": "the same, where it was not done; where it was, nobody notices",
}
"""What is not sent again by itself, and what follows from it."""


def culprit(error: BaseException) -> str:
    """Return what the store was asked for when the error was raised."""
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    cause = error.__cause__
    while cause is not None:
        names += [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
        cause = cause.__cause__
    if "_once" in names:
        return "COMMIT of an atomic step" if "_commit" in names else "inside an atomic step"
    return next((name for name in reversed(names) if name.startswith(("task_", "spool_"))), names[-1])


def test_lost_at_every_message_of_a_voyage(proxy: Proxy, tmp_path: Path) -> None:
    """At most one of what is sent takes effect, whatever it is: also inside the transaction of an atomic step."""
    left_off: Counter[tuple[Loss, str]] = Counter()
    runs = 0
    for loss in LOSSES:
        for number in itertools.count():
            ledger, losing = Ledger(tmp_path / f"{loss}-{number}"), Losing(proxy, loss, number)
            deaths = 0
            with killed_at(f"{loss} {number}"):
                try:
                    handle = sail("voyage", ALIAS, ledger.path.name, ledger, CrashPoints(), phase=lambda: losing)  # noqa: B023
                except (StateStoreError, DatabaseError) as error:
                    left_off[loss, culprit(error)] += 1
                    deaths = 1
                    handle = sail(
                        "voyage", ALIAS, ledger.path.name, ledger, CrashPoints(), aged=LEASE, phase=nullcontext
                    )
                check_home("voyage", handle, ledger, deaths=deaths)
            if not losing.lost:
                break
            runs += 1
    print(f"lost a message {runs} times; left off: {dict(left_off)}")  # noqa: T201
    assert {what for _, what in left_off} <= set(LEAVE_OFF)
    assert left_off["request", "COMMIT of an atomic step"] == 2
    assert left_off["answer", "COMMIT of an atomic step"] == 0


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
