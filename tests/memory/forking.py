"""What ``test_fork`` runs in a process of its own: forks, while threads never leave the store alone."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
import warnings
from typing import NoReturn

from django_statestore import Store
from django_statestore.backends.memory import MemoryBackend

FORKS = 15


def main() -> None:
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*multi-threaded")
    sys.setswitchinterval(1e-5)
    store, stop = MemoryBackend().store(), threading.Event()
    others = [MemoryBackend().store() for _ in range(3)]
    for each in (store, *others):
        each.kv.set("before", "the fork")

    def busy(number: int) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            store.queue.enqueue("q", turn, max_size=50, ttl=0.01)
            store.kv.set(f"k{number}-{turn % 500}", turn, ttl=0.001)
            store.list.append("l", [number, turn], max_len=20)
            store.queue.take("q", 0.001)
            MemoryBackend().store().kv.set("k", 1)

    threads = [threading.Thread(target=busy, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for number in range(FORKS):
        pid = os.fork()
        if not pid:
            child(store, others, number)
        wait_for(pid)
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "the parent's lock is stuck"
    assert all(each.kv.get("before") == "the fork" for each in (store, *others))
    assert store.kv.get("child") is None, "parent and child know nothing of each other"


def child(store: Store, others: list[Store], number: int) -> NoReturn:
    """Use every copy, and leave."""
    try:
        for each in (store, *others):
            assert each.kv.get("before") == "the fork"
            each.kv.set("child", number)
            each.kv.scan()
            assert each.kv.consume("child") == number
        fresh = MemoryBackend().store()
        fresh.kv.set("k", fresh.queue.enqueue("q", fresh.list.append("l", 1)))
        depth = store.queue.depth("q")
        assert store.queue.enqueue("q", 0) <= depth + 1
        while store.queue.dequeue("q") is not None:
            pass
        assert len(store.list.range("l")) <= 20
        with store.lock.hold("k", ttl=5):
            thread = threading.Thread(target=store.kv.set, args=("k", 1))
            thread.start()
            thread.join(10)
            assert not thread.is_alive()
        pid = os.fork() if number % 10 == 0 else -1
        if pid == 0:
            store.kv.set("grandchild", 1)
            os._exit(0)
        if pid > 0:
            wait_for(pid)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def wait_for(pid: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.001)
    os.kill(pid, 9)
    raise AssertionError("a child hangs")


if __name__ == "__main__":
    main()
