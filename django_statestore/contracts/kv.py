"""kv: values by key, with an optional time to live."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from .. import codec
from ..flow import Action, Flow, both
from ..keys import Entry
from ..ttl import Duration, optional_milliseconds
from .base import KeyedFacet, ListingPrimitives


class KVPrimitives(ListingPrimitives):
    """Be what a backend fills in. Payloads are opaque text; None stands for "no live entry"."""

    @abstractmethod
    def kv_get(self, entry: Entry) -> Action[str | None]:
        """Return the live payload."""

    @abstractmethod
    def kv_set(self, entry: Entry, payload: str, ttl: int | None) -> Action[None]:
        """Write payload and expiry, whatever was there."""

    @abstractmethod
    def kv_add(self, entry: Entry, payload: str, ttl: int | None) -> Action[bool]:
        """Write only where no live entry is; return whether it wrote."""

    @abstractmethod
    def kv_consume(self, entry: Entry) -> Action[str | None]:
        """Remove the live entry and return its payload; one winner among any number of callers."""

    @abstractmethod
    def kv_delete(self, entry: Entry) -> Action[bool]:
        """Remove the live entry; return whether there was one."""

    @abstractmethod
    def kv_touch(self, entry: Entry, ttl: int | None) -> Action[bool]:
        """Replace the expiry of the live entry; return whether there was one."""


class KV(KeyedFacet[KVPrimitives]):
    """Keep values by key. Every operation is one atomic step; writes join the caller's transaction on a database."""

    name = "kv"

    def _get(self, key: str, default: Any = None) -> Flow[Any]:
        """Return the value of ``key``, or ``default`` if there is none or it has expired. A stored None is a value."""
        payload = yield from self._backend.kv_get(self._entry(key))
        return default if payload is None else codec.loads(payload)

    def _set(self, key: str, value: Any, ttl: Duration | None = None) -> Flow[None]:
        """Store ``value``, replacing value *and* expiry: without ``ttl`` (seconds) it does not expire."""
        yield from self._backend.kv_set(self._entry(key), codec.dumps(value), optional_milliseconds(ttl))

    def _add(self, key: str, value: Any, ttl: Duration | None = None) -> Flow[bool]:
        """Store ``value`` only if ``key`` has no live value; return whether it was stored. One winner in a race."""
        return (yield from self._backend.kv_add(self._entry(key), codec.dumps(value), optional_milliseconds(ttl)))

    def _consume(self, key: str, default: Any = None) -> Flow[Any]:
        """Remove ``key`` and return its value, or ``default`` if there was no live one. One winner in a race."""
        payload = yield from self._backend.kv_consume(self._entry(key))
        return default if payload is None else codec.loads(payload)

    def _delete(self, key: str) -> Flow[bool]:
        """Remove ``key``; return whether it had a live value."""
        return (yield from self._backend.kv_delete(self._entry(key)))

    def _touch(self, key: str, ttl: Duration | None) -> Flow[bool]:
        """Give ``key`` a new time to live (seconds), or None for no expiry; return whether it had a live value."""
        return (yield from self._backend.kv_touch(self._entry(key), optional_milliseconds(ttl)))

    get, aget = both(_get)
    set, aset = both(_set)
    add, aadd = both(_add)
    consume, aconsume = both(_consume)
    delete, adelete = both(_delete)
    touch, atouch = both(_touch)
