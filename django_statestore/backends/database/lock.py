"""lock on a database: one statement an operation, durable when it returns."""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.lock import LockPrimitives
from ...keys import Entry
from .primitives import DatabasePrimitives, commits, commits_repeatably, identity

# A released lock keeps its row, expired, for a day: the next fence must be higher. The look before the insert keeps a
# caller who waits for the lock from writing anything.
ACQUIRE = """
insert into statestore_lock as l (id, namespace, key, token, fence, expires_at)
select %(id)s, %(namespace)s, %(key)s, %(token)s, {micros}, {after[ttl]}
where not exists (
    select 1 from statestore_lock where id = %(id)s and expires_at > {now} and token <> %(token)s
)
on conflict (id) do update set
    token = excluded.token,
    fence = case
        when l.token = excluded.token and l.expires_at > {now} then l.fence
        else {greatest}(l.fence + 1, {micros})
    end,
    expires_at = {after[ttl]}
where l.expires_at <= {now} or l.token = excluded.token
returning fence
"""

_HELD = "id = %(id)s and token = %(token)s and expires_at > {now}"

RELEASE = f"update statestore_lock set expires_at = {{now}} where {_HELD} returning 1"

EXTEND = f"update statestore_lock set expires_at = {{after[ttl]}} where {_HELD} returning 1"

FORCE_RELEASE = "update statestore_lock set expires_at = {now} where id = %(id)s and expires_at > {now} returning 1"


class LockStatements(DatabasePrimitives, LockPrimitives):
    """Fill in the primitives of lock."""

    @commits_repeatably
    def lock_acquire(self, entry: Entry, token: bytes, ttl: int) -> int | None:
        row = self.row(ACQUIRE, identity(entry) | {"token": token, "ttl": ttl})
        return int(row[0]) if row else None

    @commits
    def lock_release(self, entry: Entry, token: bytes) -> bool:
        return self.touched(RELEASE, {"id": entry.digest, "token": token})

    @commits_repeatably
    def lock_extend(self, entry: Entry, token: bytes, ttl: int) -> bool:
        return self._extend(entry, token, ttl)

    @commits
    def lock_force_release(self, entry: Entry) -> bool:
        return self.touched(FORCE_RELEASE, {"id": entry.digest})

    @commits_repeatably
    def lock_renew(self, held: Sequence[tuple[Entry, bytes, int]]) -> list[bool]:
        return [self._extend(*lock) for lock in held]

    def _extend(self, entry: Entry, token: bytes, ttl: int) -> bool:
        return self.touched(EXTEND, {"id": entry.digest, "token": token, "ttl": ttl})
