"""handoff on a database: as kv, but the id is never stored."""

from __future__ import annotations

from ...contracts.handoff import HandoffPrimitives
from ...keys import Entry
from . import values
from .primitives import reads, writes

_TABLE = "statestore_handoff"

SET, GET, TAKE, DELETE = values.put(_TABLE, "namespace"), values.get(_TABLE), values.take(_TABLE), values.drop(_TABLE)


class HandoffStatements(values.ValueStatements, HandoffPrimitives):
    """Fill in the primitives of handoff."""

    @writes
    def handoff_set(self, entry: Entry, payload: str, ttl: int) -> None:
        self.rows(SET, {"id": entry.digest, "namespace": entry.namespace, "value": payload, "ttl": ttl})

    @reads
    def handoff_get(self, entry: Entry) -> str | None:
        row = self.row(GET, {"id": entry.digest})
        return row[0] if row else None

    @writes
    def handoff_take(self, entry: Entry) -> str | None:
        row = self.changed(TAKE, {"id": entry.digest})
        return row[0] if row else None

    @writes
    def handoff_delete(self, entry: Entry) -> bool:
        return self.changed(DELETE, {"id": entry.digest}) is not None
