"""handoff on Redis: as kv, but the name of a key ends in the digest of its id."""

from __future__ import annotations

from ...contracts.handoff import HandoffPrimitives
from ...flow import Action
from ...keys import Entry
from .command import nothing, text, truth
from .primitives import RedisPrimitives


class HandoffCommands(RedisPrimitives, HandoffPrimitives):
    """Fill in the primitives of handoff."""

    def handoff_set(self, entry: Entry, payload: str, ttl: int) -> Action[None]:
        return self.writes("SET", [self._handoff_key(entry)], payload, "PX", ttl, read=nothing)

    def handoff_get(self, entry: Entry) -> Action[str | None]:
        return self.reads("GET", [self._handoff_key(entry)], read=text)

    def handoff_take(self, entry: Entry) -> Action[str | None]:
        return self.writes("GETDEL", [self._handoff_key(entry)], read=text)

    def handoff_delete(self, entry: Entry) -> Action[bool]:
        return self.writes("DEL", [self._handoff_key(entry)], read=truth)

    def _handoff_key(self, entry: Entry) -> bytes:
        return self.names_of.of_facet("handoff", entry.namespace, "handoff", entry.digest.hex())
