"""dedup on a database. A row with a token is a claim that is pending; without one it is a window."""

from __future__ import annotations

from ...contracts.dedup import ClaimState, DedupPrimitives
from ...keys import Entry
from .primitives import DatabasePrimitives, commits_repeatably, identity, writes

# The look before the insert keeps a repeat from writing anything, even a row lock.
SEEN = """
insert into statestore_dedup as d (id, namespace, key, token, expires_at, window_ends_at)
select %(id)s, %(namespace)s, %(key)s, null, {after[ttl]}, null
where not exists (select 1 from statestore_dedup where id = %(id)s and expires_at > {now})
on conflict (id) do update set token = null, expires_at = {after[ttl]}, window_ends_at = null
where d.expires_at <= {now}
returning 1
"""

CLAIM = """
insert into statestore_dedup as d (id, namespace, key, token, expires_at, window_ends_at)
select %(id)s, %(namespace)s, %(key)s, %(token)s, {after[lease]}, {after[ttl]}
where not exists (
    select 1 from statestore_dedup
    where id = %(id)s and expires_at > {now} and (token is null or token <> %(token)s)
)
on conflict (id) do update
set token = excluded.token, expires_at = {after[lease]}, window_ends_at = {after[ttl]}
where d.expires_at <= {now} or d.token = excluded.token
returning 1
"""

STATE = "select token is not null from statestore_dedup where id = %(id)s and expires_at > {now}"

# While the window lasts neither asks whether the lease is over: where nobody took over, the handler's word counts.
_MINE = "id = %(id)s and token = %(token)s and (window_ends_at > {now} or expires_at > {now})"

CONFIRM = f"""
update statestore_dedup set token = null, expires_at = window_ends_at, window_ends_at = null
where {_MINE}
returning 1
"""

FORGET = f"delete from statestore_dedup where {_MINE} returning 1"


class DedupStatements(DatabasePrimitives, DedupPrimitives):
    """Fill in the primitives of dedup."""

    @writes
    def dedup_seen(self, entry: Entry, ttl: int) -> bool:
        return not self.touched(SEEN, identity(entry) | {"ttl": ttl})

    @commits_repeatably
    def dedup_claim(self, entry: Entry, token: bytes, ttl: int, lease: int) -> ClaimState | None:
        if self.touched(CLAIM, identity(entry) | {"token": token, "ttl": ttl, "lease": lease}):
            return "new"
        row = self.row(STATE, {"id": entry.digest})
        if row is None:
            return None
        return "pending" if row[0] else "done"

    @writes
    def dedup_confirm(self, entry: Entry, token: bytes) -> bool:
        return self.touched(CONFIRM, {"id": entry.digest, "token": token})

    @writes
    def dedup_forget(self, entry: Entry, token: bytes) -> bool:
        return self.touched(FORGET, {"id": entry.digest, "token": token})
