"""What the facets share: their entries, and how a namespace is counted, listed and cleared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..exceptions import InvalidArgument
from ..flow import Action, Flow, both
from ..keys import Entry, Namespace, Scope, check_text

Primitives = TypeVar("Primitives", bound="ListingPrimitives")


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """Describe an entry without showing its value."""

    key: str
    size: int
    """Bytes of the stored value; 0 where the facet stores none."""
    expires_in: float | None
    """Seconds; None: it does not expire."""


@dataclass(frozen=True, slots=True)
class Page:
    """Hold one page of a listing."""

    items: tuple[EntryInfo, ...]
    cursor: str | None
    """What to pass for the next page; None: this was the last."""


class ListingPrimitives(ABC):
    """Be what a backend fills in for every facet that can be listed. ``facet`` is the facet's name."""

    @abstractmethod
    def entries_count(self, facet: str, namespace: str) -> Action[int]:
        """Count the live entries of exactly this namespace."""

    @abstractmethod
    def entries_clear(self, facet: str, namespace: str) -> Action[None]:
        """Remove every entry of exactly this namespace."""

    @abstractmethod
    def entries_scan(self, facet: str, namespace: str, prefix: str, after: str, limit: int) -> Action[list[EntryInfo]]:
        """Return live entries whose key begins with ``prefix`` and comes after ``after``, in key order."""

    @abstractmethod
    def entries_purge(self, facet: str, limit: int) -> Action[int]:
        """Remove up to ``limit`` expired entries of all namespaces; return how many went."""


class Facet(Generic[Primitives]):
    """Be one facet of a store, within one namespace."""

    name: str

    def __init__(self, backend: Primitives, names: Namespace) -> None:
        self._backend = backend
        self._scope = Scope(self.name, names)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} namespace={self._scope.names!r}>"

    def _entry(self, key: str) -> Entry:
        return self._scope.entry(key)

    def _size(self) -> Flow[int]:
        """Return how many live entries exactly this namespace has, nested namespaces not counted. Costs O(entries)."""
        return (yield from self._backend.entries_count(self.name, self._scope.namespace))

    def _clear(self) -> Flow[None]:
        """Remove every entry of exactly this namespace, never of a nested one."""
        yield from self._backend.entries_clear(self.name, self._scope.namespace)

    size, asize = both(_size)
    clear, aclear = both(_clear)


class KeyedFacet(Facet[Primitives]):
    """Be a facet whose keys may be listed."""

    def _scan(self, prefix: str = "", cursor: str | None = None, limit: int = 100) -> Flow[Page]:
        """Return a page of the live entries of exactly this namespace, in key order, without their values.

        ``prefix`` is text, not a pattern. ``cursor`` is the one of the page before; entries that come or go meanwhile
        are seen or not, the others each once. ``limit`` is 1 to 1,000.
        """
        if type(limit) is not int or not 1 <= limit <= 1000:
            raise InvalidArgument("limit must be a whole number from 1 to 1000")
        for text in (prefix, cursor):
            if text not in ("", None):
                check_text(text, "prefix or cursor")
        items = yield from self._backend.entries_scan(self.name, self._scope.namespace, prefix, cursor or "", limit + 1)
        more = len(items) > limit
        return Page(tuple(items[:limit]), items[limit - 1].key if more else None)

    scan, ascan = both(_scan)
