"""Atomicity: what many callers at once may see. Threads for the blocking form, coroutines for the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import pytest

from ...store import Store
from .base import Conformance, later
from .calling import Call
from .durable import checkpoint

T = TypeVar("T")

AT_ONCE = 8
ROUNDS = 3
"""How often each race is run: what is not atomic need not show at the first try."""


@pytest.mark.usefixtures("commits")
class RaceConformance(Conformance):
    """Hold a backend to the rules of atomicity."""

    def at_once(self, store: Store, call: Call, operations: Sequence[partial[T]]) -> list[T]:
        return call.at_once(operations, lambda: self.end_thread(store))

    def _all(self, store: Store, call: Call, operation: Callable[..., T], *args: Any, **kwargs: Any) -> list[T]:
        """Let eight make the same call at once."""
        return self.at_once(store, call, [partial(operation, *args, **kwargs)] * AT_ONCE)

    # -- one winner ---------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("expired", [False, True], ids=["fresh", "expired"])
    def test_of_many_adds_one_stores(self, store: Store, call: Call, expired: bool) -> None:
        for turn in range(ROUNDS):
            key = f"k{turn}"
            if expired:
                store.kv.set(key, "old", ttl=10)
                later(store, 11)
            added = self.at_once(store, call, [partial(store.kv.add, key, number) for number in range(AT_ONCE)])
            assert sorted(added) == [False] * (AT_ONCE - 1) + [True]
            assert store.kv.get(key) == added.index(True)

    def test_of_many_that_consume_one_gets_the_value(self, store: Store, call: Call) -> None:
        for _ in range(ROUNDS):
            store.kv.set("k", "token")
            got = self._all(store, call, store.kv.consume, "k", "missing")
            assert sorted(got) == ["missing"] * (AT_ONCE - 1) + ["token"]

    def test_of_many_deletes_one_finds_something(self, store: Store, call: Call) -> None:
        for _ in range(ROUNDS):
            store.kv.set("k", 1)
            store.list.append("k", 1)
            store.queue.enqueue("k", 1)
            store.handoff.set("k", {}, 60)
            store.spool.write("k", "text")
            for facet in (store.kv, store.list, store.queue, store.handoff, store.spool):
                found = self._all(store, call, facet.delete, "k")
                assert sorted(found) == [False] * (AT_ONCE - 1) + [True], facet

    @pytest.mark.parametrize("expired", [False, True], ids=["fresh", "expired"])
    def test_of_many_sightings_one_is_the_first(self, store: Store, call: Call, expired: bool) -> None:
        for turn in range(ROUNDS):
            if expired:
                store.dedup.seen(f"e{turn}", 10)
                later(store, 11)
            seen = self._all(store, call, store.dedup.seen, f"e{turn}", 600)
            assert sorted(seen) == [False] + [True] * (AT_ONCE - 1)

    @pytest.mark.parametrize("expired", [False, True], ids=["fresh", "expired"])
    def test_of_many_claims_one_is_new(self, store: Store, call: Call, expired: bool) -> None:
        for turn in range(ROUNDS):
            if expired:
                store.dedup.claim(f"e{turn}", 600, 10)
                later(store, 11)
            claims = self._all(store, call, store.dedup.claim, f"e{turn}", 600, 600)
            assert sorted(claim.state for claim in claims) == ["new"] + ["pending"] * (AT_ONCE - 1)
            (winner,) = [claim for claim in claims if claim]
            confirmed = self._all(store, call, winner.confirm)
            assert True in confirmed
            assert store.dedup.claim(f"e{turn}", 600).state == "done"

    @pytest.mark.parametrize("before", ["nothing", "released", "expired"])
    def test_of_many_that_acquire_one_has_the_lock(self, store: Store, call: Call, before: str) -> None:
        for turn in range(ROUNDS):
            key, fence = f"k{turn}", 0
            if before != "nothing":
                old = store.lock.acquire(key, 10)
                assert old is not None
                fence = old.fence
                if before == "released":
                    old.release()
                else:
                    later(store, 11)
            locks = self._all(store, call, store.lock.acquire, key, 600)
            (lock,) = [lock for lock in locks if lock is not None]
            assert lock.fence > fence
            assert sorted(self._all(store, call, lock.release)) == [False] * (AT_ONCE - 1) + [True]

    def test_of_many_that_take_a_state_one_gets_it(self, store: Store, call: Call) -> None:
        for turn in range(ROUNDS):
            store.handoff.set("h", {"turn": turn}, 60)
            got = self._all(store, call, store.handoff.get_and_delete, "h")
            assert [state for state in got if state is not None] == [{"turn": turn}]

    @pytest.mark.parametrize("lapsed", [False, True], ids=["fresh", "lapsed"])
    def test_of_many_that_claim_a_task_one_has_the_lease(self, store: Store, call: Call, lapsed: bool) -> None:
        for turn in range(ROUNDS):
            task, fence = f"t{turn}", 0
            if lapsed:
                old = store.durable.claim(task, 10)
                assert old is not None
                fence = old.fence
                later(store, 11)
            claims = self._all(store, call, store.durable.claim, task, 600)
            (winner,) = [claim for claim in claims if claim is not None]
            assert winner.fence > fence
            store.durable.commit(task, winner.token, checkpoint())

    # -- lists and queues ---------------------------------------------------------------------------------------------

    def test_appends_at_once_have_each_a_length_of_its_own(self, store: Store, call: Call) -> None:
        operations = [partial(store.list.append, "L", number) for number in range(AT_ONCE * ROUNDS)]
        lengths = self.at_once(store, call, operations)
        assert sorted(lengths) == list(range(1, len(operations) + 1))
        assert sorted(store.list.range("L")) == list(range(len(operations)))
        by_place = [number for _, number in sorted(zip(lengths, range(len(operations)), strict=True))]
        assert store.list.range("L") == by_place

    def test_appends_at_once_never_leave_more_than_max_len(self, store: Store, call: Call) -> None:
        operations = [partial(store.list.append, "L", number, max_len=5, ttl=600) for number in range(AT_ONCE * ROUNDS)]
        lengths = self.at_once(store, call, operations)
        assert sorted(lengths) == [1, 2, 3, 4] + [5] * (len(operations) - 4)
        left = store.list.range("L")
        assert len(left) == len(set(left)) == store.list.length("L") == 5

    @pytest.mark.parametrize("form", ["dequeue", "take"])
    def test_each_item_goes_to_one_and_nobody_finds_the_queue_empty_too_soon(
        self, store: Store, call: Call, form: str
    ) -> None:
        for _ in range(ROUNDS):
            for number in range(AT_ONCE):
                store.queue.enqueue("q", number)
            if form == "dequeue":
                got = self._all(store, call, store.queue.dequeue, "q", "empty")
            else:
                items = self._all(store, call, store.queue.take, "q", 600)
                got = [item.value if item else "empty" for item in items]
                assert [item.ack() for item in items if item] == [True] * AT_ONCE
            assert sorted(got, key=str) == list(range(AT_ONCE))
            assert store.queue.depth("q") == 0

    def test_an_item_is_acknowledged_once(self, store: Store, call: Call) -> None:
        for _ in range(ROUNDS):
            store.queue.enqueue("q", 1)
            item = store.queue.take("q", 600)
            assert item is not None
            assert sorted(self._all(store, call, item.ack)) == [False] * (AT_ONCE - 1) + [True]

    @pytest.mark.parametrize("on_full", ["drop-oldest", "drop-newest"])
    def test_producers_at_once_never_pass_the_limit(self, store: Store, call: Call, on_full: Any) -> None:
        for turn in range(ROUNDS):
            key = f"q{turn}"
            for number in range(4):
                store.queue.enqueue(key, number)
            operations = [partial(store.queue.enqueue, key, 10 + number, 5, on_full) for number in range(AT_ONCE)]
            assert self.at_once(store, call, operations) == [5] * AT_ONCE
            left = [store.queue.dequeue(key) for _ in range(5)]
            assert store.queue.depth(key) == 0
            if on_full == "drop-newest":
                assert left[:4] == [0, 1, 2, 3]
                assert left[4] >= 10
            else:
                assert len(set(left)) == 5
                assert min(left) >= 10

    def test_the_items_of_each_producer_keep_their_order(self, store: Store) -> None:
        def produce(producer: int) -> None:
            for number in range(6):
                store.queue.enqueue("q", [producer, number])

        blocking = Call(asynchronous=False)
        self.at_once(store, blocking, [partial(produce, producer) for producer in range(AT_ONCE)])
        got = [store.queue.dequeue("q") for _ in range(6 * AT_ONCE)]
        for producer in range(AT_ONCE):
            assert [number for by, number in got if by == producer] == list(range(6))

    # -- spools -------------------------------------------------------------------------------------------------------

    def test_of_many_writers_one_is_last_and_nothing_is_mixed(self, store: Store, call: Call) -> None:
        bodies = [b"%d\n" % mark * (20 + mark) for mark in range(AT_ONCE)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store.backend, "spool_chunk_size", 3)
            readers = self.at_once(store, call, [partial(store.spool.write, "c", body) for body in bodies])
            assert [reader.read_bytes() for reader in readers] == bodies
            last = store.spool.read("c")
        assert last is not None
        assert last.read_bytes() in bodies
        assert store.spool.size() == 1

    def test_who_reads_while_others_write_sees_one_version_whole(self, store: Store) -> None:
        bodies = [b"%d\n" % mark * (200 + mark) for mark in range(AT_ONCE)]
        store.spool.write("c", bodies[0])

        def write(body: bytes) -> None:
            for _ in range(3):
                store.spool.write("c", iter([body]))

        def read() -> None:
            for _ in range(10):
                reader = store.spool.read("c")
                assert reader is not None
                assert reader.read_bytes() in bodies
                assert len(set(reader.lines(0, reader.line_count - 1))) == 1

        blocking = Call(asynchronous=False)
        self.at_once(store, blocking, [*(partial(write, body) for body in bodies[:4]), partial(read), partial(read)])

    # -- fences -------------------------------------------------------------------------------------------------------

    def test_fences_rise_strictly_among_holders_that_take_turns(self, store: Store) -> None:
        fences: list[int] = []

        def work() -> None:
            for _ in range(3):
                with store.lock.hold("k", ttl=60, wait=60) as held:
                    fences.append(held.fence)

        self.at_once(store, Call(asynchronous=False), [partial(work)] * 4)
        assert len(fences) == 12
        assert all(earlier < afterwards for earlier, afterwards in itertools.pairwise(fences))
