"""list: values in order, with one expiry for the whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from .. import codec
from ..flow import Action, Flow, both
from ..keys import Entry
from ..ttl import Duration, optional_milliseconds
from .arguments import whole
from .base import KeyedFacet, ListingPrimitives


class ListPrimitives(ListingPrimitives):
    """Be what a backend fills in. Positions count from 0, the oldest; an expired or emptied list is no list."""

    @abstractmethod
    def list_append(self, entry: Entry, payload: str, max_len: int | None, ttl: int | None) -> Action[int]:
        """Add at the end, drop the oldest beyond ``max_len``, set the expiry where ``ttl`` is given; return the length.

        On no list, a fresh one begins, without expiry unless ``ttl`` is given.
        """

    @abstractmethod
    def list_range(self, entry: Entry, start: int, stop: int | None) -> Action[Sequence[str]]:
        """Return the payloads from ``start`` to ``stop``, both included; None: to the end."""

    @abstractmethod
    def list_last(self, entry: Entry, count: int) -> Action[Sequence[str]]:
        """Return the newest ``count`` payloads, oldest first."""

    @abstractmethod
    def list_length(self, entry: Entry) -> Action[int]:
        """Return the length."""

    @abstractmethod
    def list_trim(self, entry: Entry, max_len: int) -> Action[None]:
        """Keep the newest ``max_len``; the expiry stays, but an emptied list is gone."""

    @abstractmethod
    def list_delete(self, entry: Entry) -> Action[bool]:
        """Remove the list; return whether there was one."""

    @abstractmethod
    def list_purge(self, limit: int) -> Action[int]:
        """Remove expired lists of all namespaces, ``limit`` of them or of their items; return how many went."""


class ListFacet(KeyedFacet[ListPrimitives]):
    """Keep lists of values, oldest first. Every operation is one atomic step and joins the caller's transaction.

    The expiry belongs to the whole list: an append without ``ttl`` leaves it as it is, one with ``ttl`` (seconds) sets
    it for all. An append to an expired list starts a fresh one. A list that is emptied is gone, and its expiry too.
    """

    name = "list"

    def _append(self, key: str, value: Any, max_len: int | None = None, ttl: Duration | None = None) -> Flow[int]:
        """Add ``value`` at the end, drop the oldest beyond ``max_len``, and return the length after that."""
        cap = None if max_len is None else whole("max_len", max_len, least=1)
        entry, payload = self._entry(key), codec.dumps(value)
        return (yield from self._backend.list_append(entry, payload, cap, optional_milliseconds(ttl)))

    def _range(self, key: str, start: int = 0, stop: int | None = None) -> Flow[list[Any]]:
        """Return the values from ``start`` to ``stop``, both included, counted from 0; None: to the end.

        Negative numbers are refused; what lies beyond the end is left out; a missing list is empty.
        """
        last = None if stop is None else whole("stop", stop)
        payloads = yield from self._backend.list_range(self._entry(key), whole("start", start), last)
        return [codec.loads(payload) for payload in payloads]

    def _last(self, key: str, n: int) -> Flow[list[Any]]:
        """Return the newest ``n`` values, oldest first."""
        payloads = yield from self._backend.list_last(self._entry(key), whole("n", n))
        return [codec.loads(payload) for payload in payloads]

    def _length(self, key: str) -> Flow[int]:
        """Return the length; 0 for a missing list."""
        return (yield from self._backend.list_length(self._entry(key)))

    def _trim(self, key: str, max_len: int) -> Flow[None]:
        """Keep the newest ``max_len`` values; 0 empties the list."""
        yield from self._backend.list_trim(self._entry(key), whole("max_len", max_len))

    def _delete(self, key: str) -> Flow[bool]:
        """Remove the list; return whether there was one."""
        return (yield from self._backend.list_delete(self._entry(key)))

    append, aappend = both(_append)
    range, arange = both(_range)
    last, alast = both(_last)
    length, alength = both(_length)
    trim, atrim = both(_trim)
    delete, adelete = both(_delete)
