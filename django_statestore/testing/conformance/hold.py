"""lock.hold: a lock that is renewed while a block runs, and never runs the block unlocked."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from ...contracts.hold import HeldLock
from ...exceptions import LockLost, LockNotAcquired
from ...store import Store
from .base import Conformance, eventually, later
from .calling import Call, at_once


def is_free(store: Store) -> bool:
    lock = store.lock.acquire("k")
    return lock is not None and lock.release()


class HoldConformance(Conformance):
    """Hold a backend to the rules of ``store.lock.hold``."""

    # -- the block ----------------------------------------------------------------------------------------------------

    def test_the_lock_is_held_in_the_block_and_free_after_it(self, store: Store, call: Call) -> None:
        def body(held: HeldLock) -> str:
            assert (held.key, held.lost) == ("k", False)
            assert 10 < held.expires_in <= 30
            held.check()
            assert call(store.lock.acquire, "k") is None
            assert call(store.lock.extend, "k", held.token, 30) is True
            return "done"

        assert call.block(store.lock.hold("k"), body) == "done"
        assert is_free(store)

    def test_a_held_lock_tells_all_but_its_token(self, store: Store, call: Call) -> None:
        shown = call.block(store.lock.hold("k"), lambda held: (repr(held), held.fence))
        assert shown[0] == f"<HeldLock key='k' fence={shown[1]} lost=False>"

    def test_fences_rise_from_block_to_block(self, store: Store, call: Call) -> None:
        block = store.lock.hold("k")
        first = call.block(block, lambda held: held.fence)
        assert first < call.block(block, lambda held: held.fence)

    def test_the_block_is_not_run_while_another_holds_the_lock(self, store: Store, call: Call) -> None:
        other = store.lock.acquire("k", 60)
        assert other is not None
        for wait in (0, 0.05):
            with pytest.raises(LockNotAcquired, match="'k' is held by another; the body was not run") as caught:
                call.block(store.lock.hold("k", wait=wait), lambda held: pytest.fail("the body ran"))
            assert isinstance(caught.value, TimeoutError)
        assert other.release() is True

    def test_a_block_waits_for_an_expired_lock_no_longer_than_it_must(self, store: Store, call: Call) -> None:
        store.lock.acquire("k", ttl=0.1)
        started = time.monotonic()
        assert call.block(store.lock.hold("k", wait=60), lambda held: held.lost) is False
        assert time.monotonic() - started < 30

    def test_a_body_keeps_its_own_exception(self, store: Store, call: Call) -> None:
        def body(held: HeldLock) -> None:
            raise ValueError("of the body")

        with pytest.raises(ValueError, match="of the body"):
            call.block(store.lock.hold("k"), body)
        assert is_free(store)

    # -- a lock that is lost ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("loss", ["expired", "taken", "forced"])
    def test_a_loss_is_told_at_the_end(self, store: Store, call: Call, loss: str) -> None:
        def body(held: HeldLock) -> None:
            if loss == "forced":
                store.lock.force_release("k")
            else:
                later(store, 31)
            if loss == "taken":
                assert store.lock.acquire("k", 60) is not None

        with pytest.raises(LockLost, match="'k' was lost while it was held"):
            call.block(store.lock.hold("k"), body)
        assert is_free(store) is (loss != "taken")

    def test_a_loss_does_not_hide_the_exception_of_the_body(self, store: Store, call: Call) -> None:
        def body(held: HeldLock) -> None:
            later(store, 31)
            raise ValueError("of the body")

        with pytest.raises(ValueError, match="of the body"):
            call.block(store.lock.hold("k"), body)

    def test_a_lock_that_was_not_renewed_in_time_counts_as_lost_without_asking_the_store(
        self, store: Store, call: Call
    ) -> None:
        def body(held: HeldLock) -> None:
            held.renewed_at -= 31
            assert held.lost
            assert held.expires_in == 0
            held.check()

        with pytest.raises(LockLost, match="'k' was lost"):
            call.block(store.lock.hold("k"), body)

    # -- renewal ------------------------------------------------------------------------------------------------------

    @pytest.mark.usefixtures("commits")
    def test_renewals_from_another_thread_keep_the_lock(self, store: Store, call: Call) -> None:
        def body(held: HeldLock) -> None:
            later(store, 20)
            assert at_once([lambda: held.renew_all([held])], held.close) == [[True]]
            later(store, 20)
            assert store.lock.acquire("k") is None

        call.block(store.lock.hold("k"), body)
        assert is_free(store)

    @pytest.mark.usefixtures("commits")
    def test_many_locks_are_renewed_together_and_each_for_its_own_ttl(self, store: Store) -> None:
        hold = store.lock.hold
        with pytest.raises(LockLost), hold("a", 60) as first, hold("b", 600) as second, hold("c", 60) as third:
            store.lock.force_release("c")
            later(store, 40)
            assert at_once([lambda: first.renew_all([first, third, second])], first.close) == [[True, False, True]]
            later(store, 40)
            assert [store.lock.acquire(key, 60) for key in "ab"] == [None, None]
            later(store, 21)
            assert [store.lock.acquire(key, 60) is None for key in "ab"] == [False, True]

    @pytest.mark.usefixtures("commits")
    def test_a_lock_is_renewed_at_a_third_of_its_ttl(self, store: Store, call: Call) -> None:
        def body(held: HeldLock) -> None:
            held.renewed_at -= held.seconds / 2  # as if so much time had passed
            later(store, held.seconds / 2)
            awaken(store)
            eventually(lambda: held.expires_in > held.seconds * 3 / 4)
            later(store, held.seconds * 2 / 3)
            assert store.lock.acquire("k") is None

        call.block(store.lock.hold("k", 60), body)
        assert is_free(store)

    @pytest.mark.usefixtures("commits")
    def test_the_renewing_thread_tells_the_body_of_a_loss(self, store: Store, call: Call) -> None:
        def body(held: HeldLock) -> None:
            later(store, 61)
            assert store.lock.acquire("k", 60) is not None
            assert not held.lost  # nobody has asked yet
            held.renewed_at -= held.seconds / 2
            awaken(store)
            eventually(lambda: held.lost)
            assert held.expires_in == 0
            held.check()

        with pytest.raises(LockLost, match="'k' was lost: it expired or was taken over"):
            call.block(store.lock.hold("k", 60), body)
        assert not is_free(store)

    # -- many at once -------------------------------------------------------------------------------------------------

    @pytest.mark.usefixtures("commits")
    def test_one_block_object_serves_many_threads_one_at_a_time(self, store: Store) -> None:
        block, inside, most = store.lock.hold("k", ttl=60, wait=60), list[int](), list[int]()

        def work() -> None:
            for _ in range(3):
                with block as held:
                    inside.append(held.fence)
                    most.append(len(inside))
                    inside.remove(held.fence)

        at_once([work] * 4, lambda: self.end_thread(store))
        assert most == [1] * 12

    @pytest.mark.usefixtures("commits")
    def test_a_block_gives_back_its_own_lock_and_no_other_thread_s(self, store: Store) -> None:
        """The first one's lock is over, the second holds it by the same object: the first must not end it."""
        block, entered, left = store.lock.hold("k", ttl=60, wait=60), threading.Event(), threading.Event()

        def second() -> None:
            with block:
                entered.set()
                left.wait(60)

        thread = threading.Thread(target=lambda: at_once([second], lambda: self.end_thread(store)))
        try:
            with pytest.raises(LockLost), block:
                later(store, 61)
                thread.start()
                assert entered.wait(60)
            assert not is_free(store)
        finally:
            left.set()
            thread.join()
        assert is_free(store)

    def test_async_blocks_take_turns_without_blocking_the_event_loop(self, store: Store) -> None:
        order: list[str] = []

        async def turn(name: str) -> None:
            async with store.lock.hold("k", ttl=60, wait=60):
                order.append(name)
                await asyncio.sleep(0.01)
                order.append(name)

        async def tick(ticks: list[float]) -> None:
            while True:
                ticks.append(time.monotonic())
                await asyncio.sleep(0.001)

        async def main() -> list[float]:
            ticks: list[float] = []
            ticking = asyncio.create_task(tick(ticks))
            await asyncio.gather(*(turn(name) for name in "abcd"))
            ticking.cancel()
            return ticks

        ticks = async_to_sync(main)()
        assert sorted(order[::2]) == list("abcd")
        assert order[::2] == order[1::2]
        assert len(ticks) > 10

    # -- cancellation -------------------------------------------------------------------------------------------------

    def test_a_cancelled_body_gives_its_lock_back(self, store: Store) -> None:
        async def holds(reached: asyncio.Event) -> None:
            async with store.lock.hold("k", ttl=60):
                reached.set()
                await asyncio.sleep(60)

        async_to_sync(_cancelled_in)(holds)
        assert is_free(store)

    def test_a_cancelled_wait_takes_no_lock(self, store: Store) -> None:
        async def waits(reached: asyncio.Event) -> None:
            reached.set()
            async with store.lock.hold("k", wait=60):
                pytest.fail("the body ran")

        other = store.lock.acquire("k", 60)
        assert other is not None
        async_to_sync(_cancelled_in)(waits)
        assert store.lock.acquire("k") is None
        assert other.release() is True
        assert is_free(store)


def awaken(store: Store) -> None:
    """Let the renewing thread look again at what is due: a new lease that is short makes it do so."""
    with store.lock.hold(f"awaken-{time.monotonic()}", ttl=10):
        pass


async def _cancelled_in(where: Any) -> None:
    reached = asyncio.Event()
    task = asyncio.create_task(where(reached))
    await reached.wait()
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
