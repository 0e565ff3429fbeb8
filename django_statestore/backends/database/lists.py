"""list on a database: a head row deals the positions and holds the expiry; items are rows above its floor.

An append is one statement on PostgreSQL. A statement that waited for the head does not see an item that was committed
meanwhile, so it may leave one below the floor: no reader looks there, and the next statement deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...contracts.lists import ListPrimitives
from ...keys import Entry
from .primitives import DatabasePrimitives, identity, reads, writes

_LIVE = "(h.expires_at is null or h.expires_at > {now})"

# One reading of the clock decides about both: else a list that expires between two would live on without expiry.
_DEAL = """
insert into statestore_list as h (digest, namespace, key, seq, floor, expires_at)
values (%(id)s, %(namespace)s, %(key)s, 1, 0, {after[ttl]})
on conflict (digest) do update set seq = h.seq + 1, (floor, expires_at) = (
    select
        case
            when h.expires_at <= {read} then h.seq
            else {greatest}(h.floor, h.seq + 1 - coalesce(cast(%(max_len)s as bigint), h.seq + 1))
        end,
        case
            when cast(%(ttl)s as bigint) is not null then {after_read[ttl]}
            when h.expires_at <= {read} then null
            else h.expires_at
        end
    {from_clock}
)
returning id, seq, floor
"""

_APPEND_CHAINED = f"""
with head as ({_DEAL}),
added as (insert into statestore_list_item (list_id, seq, value) select id, seq, %(value)s from head),
dropped as (
    delete from statestore_list_item i using head where i.list_id = head.id and i.seq <= head.floor
)
select seq - floor from head
"""

_ADD = "insert into statestore_list_item (list_id, seq, value) values (%(list)s, %(seq)s, %(value)s)"

_DROP = "delete from statestore_list_item where list_id = %(list)s and seq <= %(floor)s"

_RANGE = f"""
select i.value from statestore_list h join statestore_list_item i on i.list_id = h.id
where h.digest = %(id)s and {_LIVE} and i.seq between h.floor + 1 + %(start)s and h.floor + 1 + %(stop)s
order by i.seq
"""

_LAST = f"""
select i.value from statestore_list h join statestore_list_item i on i.list_id = h.id
where h.digest = %(id)s and {_LIVE} and i.seq > {{greatest}}(h.floor, h.seq - %(count)s)
order by i.seq
"""

_LENGTH = f"select h.seq - h.floor from statestore_list h where h.digest = %(id)s and {_LIVE}"

# An emptied list is gone: it is marked as expired, so that what follows starts a fresh one.
_TRIM = f"""
update statestore_list as h set floor = {{greatest}}(h.floor, h.seq - %(max_len)s),
    expires_at = case when %(max_len)s = 0 then {{now}} else h.expires_at end
where h.digest = %(id)s and {_LIVE}
returning id, floor
"""

_TRIM_CHAINED = f"""
with head as ({_TRIM}),
dropped as (
    delete from statestore_list_item i using head where i.list_id = head.id and i.seq <= head.floor
)
select id, floor from head
"""

_EXPIRED = "select id from statestore_list where expires_at <= {clock} order by expires_at limit %(limit)s"

# An append that came first has made a fresh list of it; one that comes later waits, and then begins another.
_HOLD = """
update statestore_list set seq = seq where id {batch}
    select id from statestore_list where id = %(list)s and expires_at <= {clock} {end}
) and expires_at <= {now}
returning 1
"""

_FIRST_ITEMS = """
delete from statestore_list_item where id in (
    select id from statestore_list_item where list_id = %(list)s order by seq limit %(limit)s
) returning 1
"""

_EMPTIED = """
delete from statestore_list where id = %(list)s
and not exists (select 1 from statestore_list_item where list_id = %(list)s)
"""

_FAR = 2**53


class ListStatements(DatabasePrimitives, ListPrimitives):
    """Fill in the primitives of list."""

    @writes
    def list_append(self, entry: Entry, payload: str, max_len: int | None, ttl: int | None) -> int:
        parameters = identity(entry) | {"value": payload, "max_len": max_len, "ttl": ttl}
        if self.database.dialect.chains:
            return int(self.rows(_APPEND_CHAINED, parameters)[0][0])
        with self.database.transaction():
            number, seq, floor = self.rows(_DEAL, parameters)[0]
            self.rows(_ADD, {"list": number, "seq": seq, "value": payload})
            if floor:
                self.rows(_DROP, {"list": number, "floor": floor})
        return int(seq - floor)

    @reads
    def list_range(self, entry: Entry, start: int, stop: int | None) -> Sequence[str]:
        bounds = {"id": entry.digest, "start": start, "stop": _FAR if stop is None else stop}
        return [row[0] for row in self.rows(_RANGE, bounds)]

    @reads
    def list_last(self, entry: Entry, count: int) -> Sequence[str]:
        return [row[0] for row in self.rows(_LAST, {"id": entry.digest, "count": count})]

    @reads
    def list_length(self, entry: Entry) -> int:
        row = self.row(_LENGTH, {"id": entry.digest})
        return int(row[0]) if row else 0

    @writes
    def list_trim(self, entry: Entry, max_len: int) -> None:
        self._trim(entry, max_len)

    @writes
    def list_delete(self, entry: Entry) -> bool:
        return self._trim(entry, 0)

    def _trim(self, entry: Entry, max_len: int) -> bool:
        parameters: dict[str, Any] = {"id": entry.digest, "max_len": max_len}
        if self.database.dialect.chains:
            return self.touched(_TRIM_CHAINED, parameters)
        with self.database.transaction():
            row = self.row(_TRIM, parameters)
            if row:
                self.rows(_DROP, {"list": row[0], "floor": row[1]})
        return row is not None

    @writes
    def list_purge(self, limit: int) -> int:
        """Remove items of expired lists, so many in all, and the heads of those that have none left; count the items.

        A list without any counts as one. One that is longer than the limit goes bit by bit, and is not seen meanwhile.
        """
        gone = 0
        expired = self.rows(_EXPIRED, {"limit": limit})
        with self.database.transaction():
            for (number,) in expired:
                if gone < limit and self.touched(_HOLD, {"list": number}):
                    items = len(self.rows(_FIRST_ITEMS, {"list": number, "limit": limit - gone}))
                    self.rows(_EMPTIED, {"list": number})
                    gone += max(items, 1)
        return gone
