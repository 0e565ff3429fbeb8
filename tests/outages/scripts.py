"""What the workers do with each facet, and what they find before they begin.

An entry of a worker's own is left alone once the outcome of a write to it is unknown: from then on it may hold either.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from django_statestore import Store
from django_statestore.contracts.checkpoint import Checkpoint
from tests.outages.load import Ledger, Script, read, write

ONCE = 400
"""How many entries there are that only one may have."""
BACKLOG = 100
"""How many items stand in the queue: it is never empty, since nobody takes more than he gives."""
LARGE = "line\n" * 30_000
LISTED = ["a", "b", "c"]
MISSING = "a miss"
LEASE = 120
TURN = 2.0
"""Seconds for which the lock that all want is taken."""


def saved(number: int) -> Checkpoint:
    return Checkpoint(
        definition_id="d",
        revision="1",
        next_step_index=0,
        attempt_count=0,
        max_attempts=3,
        deadline_at_ms=10**12,
        status="ready",
        state=number,
    )


def fill(store: Store) -> None:
    """Write what every reader knows to be there."""
    store.kv.set("standing", "value")
    store.handoff.set("standing", {"a": 1}, 600)
    store.spool.write("standing", LARGE)
    store.durable.save("standing", saved(1))
    store.dedup.seen("standing", 600)
    for value in LISTED:
        store.list.append("standing", value)
    for number in range(BACKLOG):
        store.queue.enqueue("all", f"backlog-{number}")
    for number in range(ONCE):
        store.kv.set(f"once-{number}", number)
        store.handoff.set(f"once-{number}", {"n": number}, 600)


def script(store: Store, ledger: Ledger, stopped: Callable[[], bool]) -> Script:
    worker = Worker(store, ledger)
    scripts = [worker.values(), worker.lists(), worker.queues(), worker.events(), worker.shots(), worker.handoffs()]
    scripts += [worker.turns(), worker.locks(), worker.spools(), worker.tasks(), worker.reads()]
    for each in itertools.cycle(scripts):  # each yields None at the end of a round
        if stopped():
            return
        ask = next(each)
        while ask is not None:
            ask = each.send((yield ask))


class Worker:
    """One worker: an endless script a facet, with None at the end of each round."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self.store, self.ledger, self.me = store, ledger, ledger.name

    def values(self) -> Any:
        kv, own = self.store.kv, itertools.count()
        key, known = f"{self.me}-{next(own)}", None
        for number in itertools.count(1):
            entry = self.ledger.possible.setdefault(("kv", key), [None])
            told = yield write(kv.set, key, number)
            if told.done:
                known, entry[:] = number, [number]
            elif told.outcome == "unknown":
                entry.append(number)
                key, known = f"{self.me}-{next(own)}", None
                yield None
                continue
            got = yield read(kv.get, key)
            self.ledger.expect(not got.done or got.value == known, f"kv.get: {got.value}, not {known}")
            yield from self._new_value(f"{self.me}-new-{number}", number)
            yield None

    def _new_value(self, key: str, number: int) -> Any:
        kv, entry = self.store.kv, self.ledger.possible.setdefault(("kv", key), [None])
        added = yield write(kv.add, key, number)
        if added.done:
            self.ledger.expect(added.value is True, "kv.add: False for a key of its own")
            entry[:] = [number]
            touched = yield write(kv.touch, key, 600)
            self.ledger.expect(not touched.done or touched.value, "kv.touch: a miss")
        elif added.outcome == "unknown":
            entry.append(number)
            return
        if number % 2 and added.done:
            gone = yield write(kv.delete, key)
            self.ledger.expect(not gone.done or gone.value, "kv.delete: a miss")
            if gone.done:
                entry[:] = [None]
            elif gone.outcome == "unknown":
                entry.append(None)

    def lists(self) -> Any:
        length, facet = 0, self.store.list
        for number in itertools.count():
            item = f"{self.me}-{number}"
            told = yield write(facet.append, "all", item)
            self.ledger.note("append", item, told)
            if told.done:
                self.ledger.expect(told.value > length, "list.append: the list became shorter")
                length = told.value
            seen = yield read(facet.length, "all")
            self.ledger.expect(not seen.done or seen.value >= length, "list.length: the list became shorter")
            yield None

    def queues(self) -> Any:
        queue, gone = self.store.queue, 0
        for number in itertools.count():
            for part in "ab":
                item = f"{self.me}-{number}{part}"
                told = yield write(queue.enqueue, "all", item)
                self.ledger.note("enqueue", item, told)
                gone += not told.done
            if gone > 1:  # it takes no more than it gives
                gone -= 2
            elif number % 3:
                got = yield write(queue.dequeue, "all", MISSING)
                self.ledger.note("dequeue", "", got)
                self.ledger.expect(not got.done or got.value != MISSING, "queue.dequeue: a miss")
            else:
                yield from self._take(number)
            yield None

    def _take(self, number: int) -> Any:
        taken = yield write(self.store.queue.take, "all", LEASE)
        if not taken.done or taken.value is None:
            self.ledger.expect(not taken.done, "queue.take: a miss")
            self.ledger.note("take", "", taken, "")
            return
        item = taken.value
        settled = yield write(item.ack if number % 2 else item.release)
        self.ledger.note("ack" if number % 2 else "release", item.value, settled)
        self.ledger.expect(not settled.done or settled.value, "queue: the item that it took was another's")

    def events(self) -> Any:
        dedup = self.store.dedup
        for number in itertools.count():
            seen = yield write(dedup.seen, f"seen-{number}", 600)
            self.ledger.note("seen", f"seen-{number}", seen)
            claimed = yield write(dedup.claim, f"claim-{number}", 600, LEASE)
            state = claimed.value.state if claimed.done else ""
            self.ledger.note("claim", f"claim-{number}", claimed, state)
            if state == "new":
                confirmed = yield write(claimed.value.confirm)
                self.ledger.expect(not confirmed.done or confirmed.value, "dedup.confirm: the claim was another's")
                self.ledger.note("confirm", f"claim-{number}", confirmed)
            again = yield write(dedup.seen, "standing", 600)
            self.ledger.expect(not again.done or again.value, "dedup.seen: a repeat was new")
            yield None

    def shots(self) -> Any:
        for number in range(ONCE):
            value = yield write(self.store.kv.consume, f"once-{number}", MISSING)
            self.ledger.note("consume", f"once-{number}", value)
            self.ledger.expect(not value.done or value.value in (number, MISSING), "kv.consume: another's value")
            state = yield write(self.store.handoff.get_and_delete, f"once-{number}")
            self.ledger.note("get_and_delete", f"once-{number}", state, state.value or MISSING)
            yield None
        while True:
            yield None

    def handoffs(self) -> Any:
        handoff = self.store.handoff
        for number in itertools.count():
            key, state = f"{self.me}-{number}", {"n": number}
            entry = self.ledger.possible.setdefault(("handoff", key), [None])
            told = yield write(handoff.set, key, state, 600)
            if told.done:
                entry[:] = [state]
                got = yield read(handoff.get, key)
                self.ledger.expect(not got.done or got.value == state, "handoff.get: a miss")
            elif told.outcome == "unknown":
                entry.append(state)
            yield None

    def turns(self) -> Any:
        """Want the lock that all want."""
        while True:
            asked = time.monotonic()
            lock = yield write(self.store.lock.acquire, "all", TURN)
            got = time.monotonic()
            if lock.done and lock.value is not None:
                until = asked + TURN
                held = min(time.monotonic(), until)
                told = yield write(lock.value.release)
                self.ledger.note("turn", "all", lock, (lock.value.fence, got, held))
                lost = time.monotonic() >= until
                self.ledger.expect(not told.done or told.value or lost, "lock.release: it was another's")
            yield None

    def locks(self) -> Any:
        """Take and give back a lock that nobody else wants."""
        own, fence = itertools.count(), 0
        key = f"{self.me}-{next(own)}"
        while True:
            lock = yield write(self.store.lock.acquire, key, LEASE)
            told = lock
            if lock.done:
                self.ledger.expect(lock.value is not None, "lock.acquire: nobody held it")
                if lock.value is not None:
                    self.ledger.expect(lock.value.fence > fence, "lock.acquire: the fence does not rise")
                    fence = lock.value.fence
                    longer = yield write(lock.value.extend, LEASE)
                    self.ledger.expect(not longer.done or longer.value is not None, "lock.extend: nobody took it")
                    told = yield write(lock.value.release)
                    self.ledger.expect(not told.done or told.value, "lock.release: nobody took it")
            if told.outcome == "unknown" or (lock.done and not told.done):
                key, fence = f"{self.me}-{next(own)}", 0
            yield None

    def spools(self) -> Any:
        own, spool = itertools.count(), self.store.spool
        key, known = f"{self.me}-{next(own)}", ""
        for number in itertools.count():
            entry = self.ledger.possible.setdefault(("spool", key), [None])
            data = f"{number}\n" * (40_000 if number % 20 == 0 else 100)
            told = yield write(spool.write, key, data)
            if told.done:
                known, entry[:] = data, [data]
                reader = yield read(spool.read, key)
                self.ledger.expect(not reader.done or reader.value is not None, "spool.read: a miss")
                if reader.done and reader.value is not None:
                    whole = yield read(reader.value.read_all)
                    self.ledger.expect(not whole.done or whole.value == known, "spool: other bytes")
            elif told.outcome == "unknown":
                entry.append(data)
                key = f"{self.me}-{next(own)}"
            yield None

    def tasks(self) -> Any:
        own, durable = itertools.count(), self.store.durable
        key, fence = f"{self.me}-{next(own)}", 0
        for number in itertools.count():
            entry = self.ledger.possible.setdefault(("durable", key), [None])
            claim = yield write(durable.claim, key, LEASE)
            told, released = claim, claim
            if claim.done:
                self.ledger.expect(claim.value is not None, "durable.claim: nobody held it")
                if claim.value is not None:
                    self.ledger.expect(claim.value.fence > fence, "durable.claim: the fence does not rise")
                    fence = claim.value.fence
                    told = yield write(durable.commit, key, claim.value.token, saved(number))
                    if told.done:
                        entry[:] = [number]
                    elif told.outcome == "unknown":
                        entry.append(number)
                    released = yield write(durable.release, key, claim.value.token)
                    self.ledger.expect(not released.done or released.value, "durable.release: nobody took it")
            if "unknown" in (claim.outcome, told.outcome) or (claim.done and not released.done):
                key, fence = f"{self.me}-{next(own)}", 0
            yield None

    def reads(self) -> Any:
        store = self.store
        wanted: list[tuple[Any, tuple[Any, ...], Callable[[Any], bool]]] = [
            (store.kv.get, ("standing",), lambda value: value == "value"),
            (store.list.range, ("standing",), lambda value: value == LISTED),
            (store.list.last, ("standing", 1), lambda value: value == LISTED[-1:]),
            (store.handoff.get, ("standing",), lambda value: value == {"a": 1}),
            (store.queue.peek, ("all",), lambda value: value is not None),
            (store.queue.depth, ("all",), lambda value: value > 0),
            (store.durable.load, ("standing",), lambda value: value == saved(1)),
            (store.spool.read, ("standing",), lambda value: value is not None),
            (store.kv.scan, ("standing",), lambda value: [item.key for item in value.items] == ["standing"]),
            (store.spool.size, (), lambda value: value > 0),
        ]
        for operation, arguments, right in itertools.cycle(wanted):
            got = yield read(operation, *arguments)
            self.ledger.expect(not got.done or right(got.value), f"{operation.__qualname__}: {got.value!r}")
            if got.done and operation.__qualname__ == "Spool.read" and got.value is not None:
                line = yield read(got.value.line, 29_999)
                self.ledger.expect(not line.done or line.value == "line", f"spool: the last line is {line.value!r}")
            yield None
