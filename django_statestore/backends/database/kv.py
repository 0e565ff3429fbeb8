"""kv on a database: one statement an operation."""

from __future__ import annotations

from ...contracts.kv import KVPrimitives
from ...keys import Entry
from . import values
from .primitives import identity, reads, writes

_TABLE = "statestore_kv"

GET, SET = values.get(_TABLE), values.put(_TABLE, "namespace, key")

CONSUME, DELETE, TOUCH = values.take(_TABLE), values.drop(_TABLE), values.touch(_TABLE)

# The look before the insert keeps a losing call from writing anything, even a row lock.
ADD = """
insert into statestore_kv as kv (id, namespace, key, value, expires_at)
select %(id)s, %(namespace)s, %(key)s, %(value)s, {after[ttl]}
where not exists (
    select 1 from statestore_kv where id = %(id)s and (expires_at is null or expires_at > {now})
)
on conflict (id) do update set value = excluded.value, expires_at = {after[ttl]}
where kv.expires_at <= {now}
returning 1
"""


class KVStatements(values.ValueStatements, KVPrimitives):
    """Fill in the primitives of kv."""

    @reads
    def kv_get(self, entry: Entry) -> str | None:
        row = self.row(GET, {"id": entry.digest})
        return row[0] if row else None

    @writes
    def kv_set(self, entry: Entry, payload: str, ttl: int | None) -> None:
        self.rows(SET, identity(entry) | {"value": payload, "ttl": ttl})

    @writes
    def kv_add(self, entry: Entry, payload: str, ttl: int | None) -> bool:
        return self.touched(ADD, identity(entry) | {"value": payload, "ttl": ttl})

    @writes
    def kv_consume(self, entry: Entry) -> str | None:
        row = self.changed(CONSUME, {"id": entry.digest})
        return row[0] if row else None

    @writes
    def kv_delete(self, entry: Entry) -> bool:
        return self.changed(DELETE, {"id": entry.digest}) is not None

    @writes
    def kv_touch(self, entry: Entry, ttl: int | None) -> bool:
        return self.changed(TOUCH, {"id": entry.digest, "ttl": ttl}) is not None
