"""The statements of a table that keeps one value a key: kv and handoff."""

from __future__ import annotations

LIVE = "(expires_at is null or expires_at > {now})"


def get(table: str) -> str:
    return f"select value from {table} where id = %(id)s and {LIVE}"


def put(table: str, names: str) -> str:
    """Return the upsert; ``names`` are the columns that say what the row is, beside its digest."""
    values = ", ".join(f"%({name})s" for name in names.split(", "))
    return f"""
    insert into {table} (id, {names}, value, expires_at) values (%(id)s, {values}, %(value)s, {{after[ttl]}})
    on conflict (id) do update set value = excluded.value, expires_at = {{after[ttl]}}
    """


def take(table: str) -> str:
    return f"delete from {table} where id = %(id)s and {LIVE} returning value"


def drop(table: str) -> str:
    return f"delete from {table} where id = %(id)s and {LIVE} returning 1"
