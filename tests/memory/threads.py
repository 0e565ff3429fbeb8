"""Threads that get in each other's way as much as they can."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

THREADS = 8


def contend(work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """Do ``work(number)`` in so many threads at once, which take turns more often than usual; return the results."""
    barrier, results, errors = threading.Barrier(threads), dict[int, T](), list[BaseException]()

    def run(number: int) -> None:
        try:
            barrier.wait(20)
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
            assert not worker.is_alive(), "a thread hangs"
    finally:
        sys.setswitchinterval(usual)
    if errors:
        raise errors[0]
    return [results[number] for number in range(threads)]
