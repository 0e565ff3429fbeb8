"""Errors: an outage is one, never a miss; and secrets are never shown, in errors least of all."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from ...exceptions import InvalidKey, QueueFull, StateStoreError
from ...store import Store
from .base import Conformance, later
from .calling import Call
from .durable import checkpoint

SECRET = "the value of a secret"
STATE_ID = "the-id-of-a-state-that-nobody-may-read"

OPERATIONS: dict[str, Callable[[Store, Call, str], Any]] = {
    "kv.get": lambda store, call, key: call(store.kv.get, key),
    "kv.set": lambda store, call, key: call(store.kv.set, key, SECRET),
    "kv.add": lambda store, call, key: call(store.kv.add, key, SECRET),
    "kv.consume": lambda store, call, key: call(store.kv.consume, key),
    "kv.delete": lambda store, call, key: call(store.kv.delete, key),
    "kv.touch": lambda store, call, key: call(store.kv.touch, key, 60),
    "list.append": lambda store, call, key: call(store.list.append, key, SECRET),
    "list.range": lambda store, call, key: call(store.list.range, key),
    "list.last": lambda store, call, key: call(store.list.last, key, 1),
    "list.length": lambda store, call, key: call(store.list.length, key),
    "list.trim": lambda store, call, key: call(store.list.trim, key, 1),
    "list.delete": lambda store, call, key: call(store.list.delete, key),
    "lock.acquire": lambda store, call, key: call(store.lock.acquire, key),
    "lock.release": lambda store, call, key: call(store.lock.release, key, SECRET),
    "lock.extend": lambda store, call, key: call(store.lock.extend, key, SECRET, 60),
    "lock.force_release": lambda store, call, key: call(store.lock.force_release, key),
    "lock.hold": lambda store, call, key: call.block(store.lock.hold(key), lambda held: pytest.fail("the body ran")),
    "dedup.seen": lambda store, call, key: call(store.dedup.seen, key, 60),
    "dedup.claim": lambda store, call, key: call(store.dedup.claim, key, 60),
    "dedup.confirm": lambda store, call, key: call(store.dedup.confirm, key, SECRET),
    "dedup.forget": lambda store, call, key: call(store.dedup.forget, key, SECRET),
    "queue.enqueue": lambda store, call, key: call(store.queue.enqueue, key, SECRET),
    "queue.dequeue": lambda store, call, key: call(store.queue.dequeue, key),
    "queue.peek": lambda store, call, key: call(store.queue.peek, key),
    "queue.depth": lambda store, call, key: call(store.queue.depth, key),
    "queue.delete": lambda store, call, key: call(store.queue.delete, key),
    "queue.take": lambda store, call, key: call(store.queue.take, key),
    "queue.ack": lambda store, call, key: call(store.queue.ack, key, SECRET),
    "queue.release": lambda store, call, key: call(store.queue.release, key, SECRET),
    "handoff.set": lambda store, call, key: call(store.handoff.set, key, {"v": SECRET}, 60),
    "handoff.get": lambda store, call, key: call(store.handoff.get, key),
    "handoff.get_and_delete": lambda store, call, key: call(store.handoff.get_and_delete, key),
    "handoff.delete": lambda store, call, key: call(store.handoff.delete, key),
    "spool.write": lambda store, call, key: call(store.spool.write, key, SECRET),
    "spool.read": lambda store, call, key: call(store.spool.read, key),
    "spool.delete": lambda store, call, key: call(store.spool.delete, key),
    "durable.load": lambda store, call, key: call(store.durable.load, key),
    "durable.save": lambda store, call, key: call(store.durable.save, key, checkpoint(state=SECRET)),
    "durable.claim": lambda store, call, key: call(store.durable.claim, key),
    "durable.commit": lambda store, call, key: call(store.durable.commit, key, SECRET, checkpoint(state=SECRET)),
    "durable.renew": lambda store, call, key: call(store.durable.renew, key, SECRET),
    "durable.release": lambda store, call, key: call(store.durable.release, key, SECRET),
}
"""Every operation that names a key."""

LISTINGS: dict[str, Callable[[Store, Call, str], Any]] = {
    f"{facet}.{operation}": lambda store, call, _, facet=facet, operation=operation: call(  # type: ignore[misc]
        getattr(getattr(store, facet), operation)
    )
    for facet in ("kv", "list", "lock", "dedup", "queue", "handoff", "spool")
    for operation in ("size", "clear", "scan")
    if (facet, operation) != ("handoff", "scan")
}
"""Every operation on a whole namespace."""


class ErrorConformance(Conformance):
    """Hold a backend to the rules of errors."""

    @pytest.fixture
    def broken(self, unreachable: Store | None) -> Store:
        if unreachable is None:
            pytest.skip("nothing that cannot be reached: override the fixture `unreachable` to give such a store")
        return unreachable.namespace("conformance")

    def test_an_outage_is_an_error_and_never_a_miss(self, broken: Store, call: Call) -> None:
        assert [name for name, operate in OPERATIONS.items() if not _fails(operate, broken, call, "k")] == []

    def test_an_outage_is_no_empty_listing(self, broken: Store, call: Call) -> None:
        assert [name for name, operate in LISTINGS.items() if not _fails(operate, broken, call, "")] == []

    def test_bad_input_is_refused_before_the_backend_is_touched(self, broken: Store, call: Call) -> None:
        for operate in OPERATIONS.values():
            with pytest.raises(InvalidKey):
                operate(broken, call, "")

    def test_an_error_can_be_sent_to_another_process(self, store: Store) -> None:
        store.queue.enqueue("q", 1)
        with pytest.raises(QueueFull) as caught:
            store.queue.enqueue("q", 2, max_size=1, on_full="reject")
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again)) == (QueueFull, str(caught.value))


class SecretConformance(Conformance):
    """Hold a backend to the rule that no value, token or handoff id is shown anywhere."""

    def test_nothing_secret_is_logged_or_shown(
        self, store: Store, call: Call, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        shown: list[Any] = []
        for operate in OPERATIONS.values():
            try:
                shown.append(operate(store, call, STATE_ID if operate in _BY_STATE_ID else "k"))
            except StateStoreError as error:
                shown.append(_chain(error))
            except pytest.fail.Exception:
                pass
        lock, item = call(store.lock.acquire, "other"), self._taken(store, call)
        claim, lease = call(store.dedup.claim, "other", 60), call(store.durable.claim, "other")
        state_id = call(store.handoff.issue, {"v": SECRET}, 60)
        call(store.handoff.get_and_delete, state_id)
        assert lock is not None
        assert lease is not None
        assert claim.token is not None
        for gone in (False, True):  # once in time, once too late
            for each in (lock, item, claim, lease):
                shown += [repr(each), str(each)]
            shown += [call(lock.extend, 60), call(lock.release), call(item.ack), call(claim.confirm)]
            if not gone:
                later(store, 100)
        log = [(record.getMessage(), record.__dict__) for record in caplog.records]
        text = repr(log) + caplog.text + repr([each for each in shown if each not in (SECRET, [SECRET])])
        text += repr([store, store.kv, store.list, store.lock, store.dedup, store.queue, store.handoff, store.spool])
        text = text.replace(repr({"v": SECRET}), "what was read")
        for secret in (SECRET, STATE_ID, state_id, lock.token, item.token, claim.token, lease.token):
            assert secret not in text

    def _taken(self, store: Store, call: Call) -> Any:
        call(store.queue.enqueue, "other", SECRET)
        item = call(store.queue.take, "other")
        assert item is not None
        return item

    def test_what_can_be_listed_shows_no_secret(self, store: Store, call: Call) -> None:
        for operation in ("kv.set", "list.append", "queue.enqueue", "spool.write", "dedup.seen"):
            OPERATIONS[operation](store, call, "k")
        OPERATIONS["handoff.set"](store, call, STATE_ID)
        lock = call(store.lock.acquire, "k")
        assert lock is not None
        pages = [
            call(facet.scan) for facet in (store.kv, store.list, store.queue, store.spool, store.dedup, store.lock)
        ]
        assert [item.key for page in pages for item in page.items] == ["k"] * 6
        for secret in (SECRET, STATE_ID, lock.token):
            assert secret not in repr(pages)


_BY_STATE_ID = [operate for name, operate in OPERATIONS.items() if name.startswith("handoff")]


def _fails(operate: Callable[[Store, Call, str], Any], store: Store, call: Call, key: str) -> bool:
    """Return whether the operation raises an error of ours that says something, and no secret."""
    try:
        operate(store, call, key)
    except StateStoreError as error:
        return bool(str(error)) and SECRET not in _chain(error)
    return False


def _chain(error: BaseException | None) -> str:
    """Return what an error, and what led to it, would show."""
    shown = ""
    while error is not None:
        shown += f"{error!r} {error} "
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return shown
