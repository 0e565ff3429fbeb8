"""The keys of one namespace, in order for those who list them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

_SPARE = 1000


class Names:
    """Know the entries of one facet in one namespace: the digest of each by its key.

    The order costs nothing until somebody asks for it, and little while somebody does: what came since the last time
    is merged in, and what went is passed over.
    """

    __slots__ = ("_added", "_order", "digests")

    def __init__(self) -> None:
        self.digests: dict[str, bytes] = {}
        self._order: list[str] | None = None
        self._added: list[str] = []

    def add(self, key: str, digest: bytes) -> None:
        self.digests[key] = digest
        if self._order is not None and not self._has_place(key):
            self._added.append(key)
            if len(self._added) > len(self._order) + _SPARE:
                self._give_up()

    def remove(self, key: str) -> None:
        del self.digests[key]
        if self._order is not None and len(self._order) > 2 * len(self.digests) + _SPARE:
            self._give_up()

    def listed(self, prefix: str, after: str) -> Iterator[tuple[str, bytes]]:
        """Yield the keys that begin with ``prefix`` and come after ``after``, in code point order, and their digests.

        Nothing may come or go meanwhile.
        """
        order = self._ordered()
        for index in range(max(bisect_left(order, prefix), bisect_right(order, after)), len(order)):
            key = order[index]
            if not key.startswith(prefix):
                return
            digest = self.digests.get(key)
            if digest is not None:
                yield key, digest

    def _ordered(self) -> list[str]:
        if self._order is None:
            self._order = sorted(self.digests)
        elif self._added:
            self._order = sorted(key for key in (*self._order, *set(self._added)) if key in self.digests)
            self._added.clear()
        return self._order

    def _has_place(self, key: str) -> bool:
        assert self._order is not None
        index = bisect_left(self._order, key)
        return index < len(self._order) and self._order[index] == key

    def _give_up(self) -> None:
        self._order = None
        self._added.clear()
