"""The same for the leases of foreign engines and for locks: who was stopped past the end of one changes nothing."""

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from django.db import connections

from django_statestore import Store, stores
from django_statestore.contracts.checkpoint import Checkpoint
from django_statestore.testing import age
from tests import child
from tests.crash.forks import LEASE, freeze
from tests.crash.scripted import FOREIGN, rows_of
from tests.processes import Processes

SHORT = 1.0
"""The lease of what the first process has renewed: its next renewal is due soon after it goes on."""

CHECKPOINT = replace(FOREIGN, state="the first process")

IDS = ("over", "in the middle", "nobody")
"""Whether the second process has let go, still holds it, or never came."""


def attempt(work: Callable[[], object]) -> str:
    try:
        return repr(work())
    except Exception as error:
        return type(error).__name__


def hold_leases(alias: str, namespace: str) -> dict[str, str]:
    """Hold every kind of lease, be stopped and go on, and try all that a holder may do; return the answers."""
    store, answers = stores[alias].namespace(namespace), {}
    durable, lock = store.durable, store.lock
    claims = {id: durable.claim(f"claimed, {id}", lease=LEASE) for id in IDS}
    locks = {id: lock.acquire(f"acquired, {id}", ttl=LEASE) for id in IDS}
    tasks = {id: durable.exclusive(f"exclusive, {id}", lease=SHORT) for id in IDS}
    holds = {id: lock.hold(f"held, {id}", ttl=SHORT) for id in IDS}
    held_tasks = {id: tasks[id].__enter__() for id in IDS}
    held_locks = {id: holds[id].__enter__() for id in IDS}
    child.tell("inside")
    child.wait()
    give_up = time.monotonic() + 10
    taken = [*(held_tasks[id] for id in IDS[:2]), *(held_locks[id] for id in IDS)]  # a lock that lapsed is gone
    while not all(held.refused for held in taken) and time.monotonic() < give_up:
        time.sleep(0.01)
    for id in IDS:
        claim, token = claims[id], locks[id]
        assert claim is not None
        assert token is not None
        answers[f"renew, {id}"] = attempt(lambda: durable.renew(claim.id, claim.token, LEASE))  # noqa: B023
        answers[f"commit, {id}"] = attempt(lambda: durable.commit(claim.id, claim.token, CHECKPOINT))  # noqa: B023
        answers[f"release, {id}"] = attempt(lambda: durable.release(claim.id, claim.token))  # noqa: B023
        answers[f"extend, {id}"] = attempt(lambda: token.extend(LEASE))  # noqa: B023
        answers[f"unlock, {id}"] = attempt(token.release)
        answers[f"check task, {id}"] = attempt(held_tasks[id].check)
        answers[f"save, {id}"] = attempt(lambda: durable.save(f"exclusive, {id}", CHECKPOINT))  # noqa: B023
        answers[f"leave task, {id}"] = attempt(lambda: tasks[id].__exit__(None, None, None))  # noqa: B023
        answers[f"check lock, {id}"] = attempt(held_locks[id].check)
        answers[f"leave lock, {id}"] = attempt(lambda: holds[id].__exit__(None, None, None))  # noqa: B023
    return answers


REFUSED = {
    "renew": "False",
    "commit": "LeaseLost",
    "release": "False",
    "extend": "None",
    "unlock": "False",
    "check task": "LeaseLost",
    "save": "LeaseLost",
    "leave task": "LeaseLost",
    "check lock": "LockLost",
    "leave lock": "LockLost",
}

# A lease on a task that nobody took goes on; a lock that expired is anybody's.
ACCEPTED = REFUSED | {
    "renew": "True",
    "commit": "None",
    "release": "True",
    "check task": "None",
    "save": "None",
    "leave task": "None",
}


def everything(store: Store) -> dict[str, object]:
    """Return all rows of what the first process may not touch."""
    tasks = {f"{kind}, {id}": rows_of(store, f"{kind}, {id}") for kind in ("claimed", "exclusive") for id in IDS[:2]}
    with connections[store.alias].cursor() as cursor:
        locks = "select * from statestore_lock where namespace = %s and key not like %s order by key"
        cursor.execute(locks, [store.durable.entry("x").namespace, "%nobody"])
        rows = [[bytes(value) if isinstance(value, memoryview) else value for value in row] for row in cursor]
    return {**tasks, "locks": rows}


def take_over(store: Store, id: str, checkpoint: Checkpoint) -> ExitStack:
    """Take everything as the second process; it is let go when the stack is closed."""
    stack = ExitStack()
    claim = store.durable.claim(f"claimed, {id}", lease=LEASE)
    assert claim is not None
    store.durable.commit(claim.id, claim.token, checkpoint)
    stack.callback(store.durable.release, claim.id, claim.token)
    lock = store.lock.acquire(f"acquired, {id}", ttl=LEASE)
    assert lock is not None
    stack.callback(lock.release)
    stack.enter_context(store.durable.exclusive(f"exclusive, {id}", wait=0, lease=LEASE))
    store.durable.save(f"exclusive, {id}", checkpoint)
    stack.enter_context(store.lock.hold(f"held, {id}", ttl=LEASE))
    return stack


def test_a_stale_holder_changes_nothing(processes: Processes, alias: str) -> None:
    namespace = uuid.uuid4().hex
    store = stores[alias].namespace(namespace)
    first = processes.start(hold_leases, alias, namespace)
    first.expect("inside")
    freeze(first, alias)
    age(store, LEASE)
    mine = replace(CHECKPOINT, state="the second process")
    take_over(store, "over", mine).close()
    with take_over(store, "in the middle", mine):
        before = everything(store)

        first.resume()
        first.go()
        answers = first.result()

        expected = {f"{what}, {id}": answer for id in IDS[:2] for what, answer in REFUSED.items()}
        expected |= {f"{what}, nobody": answer for what, answer in ACCEPTED.items()}
        assert answers == expected
        assert everything(store) == before
    checkpoints = [store.durable.load(f"{kind}, {id}") for kind in ("claimed", "exclusive") for id in IDS[:2]]
    assert checkpoints == [mine] * 4
    assert store.durable.load("exclusive, nobody") == store.durable.load("claimed, nobody") == CHECKPOINT
