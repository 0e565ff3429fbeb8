"""A store: the facets of one backend within one namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.functional import cached_property

from .contracts.dedup import Dedup, DedupPrimitives
from .contracts.durable import Durable, DurablePrimitives
from .contracts.handoff import Handoff, HandoffPrimitives
from .contracts.kv import KV, KVPrimitives
from .contracts.lists import ListFacet, ListPrimitives
from .contracts.lock import LockFacet, LockPrimitives
from .contracts.queue import Queue, QueuePrimitives
from .contracts.spool import Spool, SpoolPrimitives
from .exceptions import NotSupported
from .keys import Namespace, encode_namespace

if TYPE_CHECKING:
    from .backends.base import BaseBackend


class Store:
    """Give the facets of one backend within one namespace: ``kv list lock dedup queue handoff spool durable``.

    A store is cheap, immutable, and may be shared by threads and event loops.
    """

    def __init__(self, backend: BaseBackend, names: Namespace = ()) -> None:
        self.backend = backend
        self.names = names
        encode_namespace(names)

    def __repr__(self) -> str:
        return f"<Store {self.alias or type(self.backend).__name__} namespace={self.names!r}>"

    @property
    def alias(self) -> str:
        """Return the alias in ``STATESTORES``, or ``""`` for a store that was built without settings."""
        return self.backend.alias

    def namespace(self, *names: str) -> Store:
        """Return this store within a namespace below this one. Matching is exact: neither sees the other's entries."""
        return Store(self.backend, (*self.names, *names))

    def at(self, names: Namespace) -> Store:
        """Return this store at the absolute namespace ``names``, whatever namespace this one has."""
        return Store(self.backend, tuple(names))

    @cached_property
    def kv(self) -> KV:
        """Values by key, with an optional time to live."""
        return KV(self._supporting(KVPrimitives, "kv"), self.names)

    @cached_property
    def list(self) -> ListFacet:
        """Values in order, with one expiry for the whole."""
        return ListFacet(self._supporting(ListPrimitives, "list"), self.names)

    @cached_property
    def lock(self) -> LockFacet:
        """Locks with a token, a time to live and a fence."""
        return LockFacet(self._supporting(LockPrimitives, "lock"), self.names)

    @cached_property
    def dedup(self) -> Dedup:
        """Windows in which an event counts once."""
        return Dedup(self._supporting(DedupPrimitives, "dedup"), self.names)

    @cached_property
    def queue(self) -> Queue:
        """Values first in, first out, with a limit if wanted."""
        return Queue(self._supporting(QueuePrimitives, "queue"), self.names)

    @cached_property
    def handoff(self) -> Handoff:
        """Carry-over state behind a one-shot id."""
        return Handoff(self._supporting(HandoffPrimitives, "handoff"), self.names)

    @cached_property
    def spool(self) -> Spool:
        """Large bytes, given once and read by line or range."""
        return Spool(self._supporting(SpoolPrimitives, "spool"), self.names)

    @cached_property
    def durable(self) -> Durable:
        """Checkpoints of durable tasks, for the engine and for foreign ones."""
        return Durable(self._supporting(DurablePrimitives, "durable"), self.names)

    def _supporting(self, primitives: type, facet: str) -> Any:
        if not isinstance(self.backend, primitives):
            raise NotSupported(f"the store {self.alias!r} ({type(self.backend).__name__}) has no facet {facet!r}")
        return self.backend
