"""Which of many things comes first, where the times of things may change and things may go."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

K = TypeVar("K", bytes, int)

_SPARE = 64


class Agenda(Generic[K]):
    """Keep keys by a number each, such as an instant. Every operation costs O(log n), over many of them.

    A heap cannot lose or move an item in its middle. So a key that goes leaves its item behind, one that is put off is
    moved when it comes up, and the heap is made anew when most of it is such remains.
    """

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[K, int] = {}
        self._heap: list[tuple[int, K]] = []  # for each key an item with its number or a lower one, and remains

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: K) -> bool:
        return key in self._numbers

    def put(self, key: K, number: int | None) -> None:
        """Keep ``key`` by ``number``, in place of the one it had; None: keep it no more."""
        if number is None:
            self.remove(key)
            return
        known = self._numbers.get(key)
        self._numbers[key] = number
        if known is None or number < known:
            heappush(self._heap, (number, key))
            self._tidy()

    def remove(self, key: K) -> None:
        """Keep ``key`` no more, if it was kept."""
        if self._numbers.pop(key, None) is not None:
            self._tidy()

    def first(self, most: int | None = None) -> K | None:
        """Return the key with the least number; None: there is none, or none up to ``most``."""
        heap, numbers = self._heap, self._numbers
        while heap and (most is None or heap[0][0] <= most):
            noted, key = heap[0]
            number = numbers.get(key)
            if number is None:
                heappop(heap)
            elif number > noted:
                heapreplace(heap, (number, key))
            else:
                return key
        return None

    def pop(self, most: int | None = None) -> K | None:
        """Remove the key that ``first`` would return, and return it."""
        key = self.first(most)
        if key is not None:
            heappop(self._heap)
            del self._numbers[key]
        return key

    @property
    def least(self) -> int | None:
        """Return a number that no kept one is below; None: nothing is kept."""
        return self._heap[0][0] if self._numbers else None

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._numbers) + _SPARE:
            self._heap = [(number, key) for key, number in self._numbers.items()]
            heapify(self._heap)
