"""The statements of a table that keeps one value a key: kv and handoff.

A caller's transaction may hold a row for long, and may remove a value and put another in its place. On PostgreSQL a
statement that waited for it has judged the expiry before the wait, and does not see the new row. So there a change
locks the row first, and tells a row that went meanwhile from one that was never there: the first is looked for again.
"""

from __future__ import annotations

from dataclasses import dataclass

from .connection import Parameters, Row
from .primitives import DatabasePrimitives

LIVE = "(expires_at is null or expires_at > {now})"

_LIVE_ROW = f"id = %(id)s and {LIVE}"


@dataclass(frozen=True, slots=True)
class Change:
    """Hold a statement that changes one live row: as it stands, and for a database where one may wait for a row."""

    plain: str
    chained: str


class ValueStatements(DatabasePrimitives):
    """Send the changes of one live row."""

    def changed(self, change: Change, parameters: Parameters) -> Row | None:
        """Return what the change returned of the row; None: there is none that lives."""
        if not self.database.dialect.chains:
            return self.row(change.plain, parameters)
        while True:
            row = self.row(change.chained, parameters)
            if row is None or row[0] is not None:
                return row


def get(table: str) -> str:
    return f"select value from {table} where {_LIVE_ROW}"


def put(table: str, names: str) -> str:
    """Return the upsert; ``names`` are the columns that say what the row is, beside its digest."""
    values = ", ".join(f"%({name})s" for name in names.split(", "))
    return f"""
    insert into {table} (id, {names}, value, expires_at) values (%(id)s, {values}, %(value)s, {{after[ttl]}})
    on conflict (id) do update set value = excluded.value, expires_at = {{after[ttl]}}
    """


def take(table: str) -> Change:
    return _change(table, f"delete from {table}", "value")


def drop(table: str) -> Change:
    return _change(table, f"delete from {table}", "1")


def touch(table: str) -> Change:
    return _change(table, f"update {table} set expires_at = {{after[ttl]}}", "1")


def _change(table: str, verb: str, returned: str) -> Change:
    return Change(
        plain=f"{verb} where {_LIVE_ROW} returning {returned}",
        chained=f"""
        with done as (
            {verb} where id = (select id from {table} where {_LIVE_ROW} for update) and {LIVE}
            returning {returned} as returned
        )
        select returned from done
        union all
        select null where not exists (select 1 from done) and exists (select 1 from {table} where {_LIVE_ROW})
        """,
    )
