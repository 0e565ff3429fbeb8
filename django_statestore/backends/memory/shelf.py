"""Where the rows of a facet stand: by digest, by namespace, and by when they may be forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...keys import Entry
from .agenda import Agenda
from .clock import earlier
from .names import Names


@dataclass(slots=True, eq=False)
class Row:
    """Hold one entry. Nobody outside the backend ever sees a row."""

    namespace: str
    key: str
    digest: bytes
    expires_at: int | None

    def alive(self, now: int) -> bool:
        return self.expires_at is None or self.expires_at > now

    @property
    def forget_at(self) -> int | None:
        """Return from when on the row is of no use; None: it always is."""
        return self.expires_at

    @property
    def size(self) -> int:
        """Return the bytes of the value that a listing shows."""
        return 0

    def mend(self) -> None:
        """Make anew what can be told from the rest of the row."""

    def age(self, by: int) -> None:
        """Move every instant ``by`` microseconds into the past."""
        self.expires_at = earlier(self.expires_at, by)


R = TypeVar("R", bound=Row)


def named(entry: Entry) -> tuple[str, str, bytes]:
    """Return what a row is told by. A caller's key may be of a class of its own, which is not kept."""
    return entry.namespace, str.__str__(entry.key), entry.digest


class Shelf(Generic[R]):
    """Keep the rows of one facet."""

    def __init__(self) -> None:
        self._rows: dict[bytes, R] = {}
        self._names: dict[str, Names] = {}
        self._endings: Agenda[bytes] = Agenda()

    def get(self, digest: bytes) -> R | None:
        return self._rows.get(digest)

    def live(self, digest: bytes, now: int) -> R | None:
        """Return the row, if it is alive."""
        row = self._rows.get(digest)
        return row if row is not None and row.alive(now) else None

    def put(self, row: R) -> None:
        """Keep ``row`` in place of any other of its digest, or note that its instants have changed."""
        if row.digest not in self._rows:
            names = self._names.get(row.namespace)
            if names is None:
                names = self._names[row.namespace] = Names()
            names.add(row.key, row.digest)
        self._rows[row.digest] = row
        self._endings.put(row.digest, row.forget_at)

    def remove(self, row: R) -> None:
        del self._rows[row.digest]
        self._endings.remove(row.digest)
        names = self._names[row.namespace]
        names.remove(row.key)
        if not names.digests:
            del self._names[row.namespace]

    def within(self, namespace: str) -> list[R]:
        """Return the rows of exactly this namespace, dead ones too, in no order."""
        names = self._names.get(namespace)
        return [] if names is None else [self._rows[digest] for digest in names.digests.values()]

    def listed(self, namespace: str, prefix: str, after: str) -> Iterator[R]:
        """Yield the rows of exactly this namespace, dead ones too, as ``Names.listed`` does."""
        names = self._names.get(namespace)
        if names is not None:
            for _, digest in names.listed(prefix, after):
                yield self._rows[digest]

    def clear(self, namespace: str, now: int) -> None:
        """Remove every row of exactly this namespace."""
        for row in self.within(namespace):
            self.remove(row)

    def purge(self, now: int, limit: int) -> int:
        """Remove up to ``limit`` rows that may be forgotten; return how many went."""
        gone = 0
        while gone < limit and (digest := self._endings.pop(now)) is not None:
            self.remove(self._rows[digest])
            gone += 1
        return gone

    def mend(self) -> None:
        """Find every row again, after a change was broken off."""
        names: dict[str, Names] = {}
        endings: Agenda[bytes] = Agenda()
        for row in self._rows.values():
            row.mend()
            names.setdefault(row.namespace, Names()).add(row.key, row.digest)
            endings.put(row.digest, row.forget_at)
        self._names, self._endings = names, endings

    def age(self, namespace: str, by: int) -> None:
        for row in self.within(namespace):
            row.age(by)
            self.put(row)


Tidier = Callable[[int, int], int]
