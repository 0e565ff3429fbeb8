"""How the bytes of blobs that nobody needs are taken away, in short statements.

A blob is condemned first, by one conditional statement: from then on no writer can finish it and no ref opens it. Only
then go its chunks, and it goes last. So a purge may be killed anywhere, and the next one goes on; and two at once are
harmless.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...flow import Action, Call
from .connection import Row
from .primitives import DatabasePrimitives

CHUNKS_AT_ONCE = 200

CONDEMN_WRITING = """
update statestore_spool_blob set dropped_at = {now}
where id {batch}
    select id from statestore_spool_blob where lease_until <= {clock} and dropped_at is null
    order by lease_until limit %(limit)s {end}
) and lease_until <= {now} and dropped_at is null
"""

_UNUSED = "not exists (select 1 from statestore_spool_use u where u.blob_id = b.id)"

CONDEMN_DROPPED = f"""
update statestore_spool_blob as b set lease_until = {{now}}
where b.id {{batch}}
    select b.id from statestore_spool_blob b
    where b.dropped_at <= {{before_clock[grace]}} and b.lease_until is null and {_UNUSED}
    order by b.dropped_at limit %(limit)s {{end}}
) and b.dropped_at <= {{before_clock[grace]}} and b.lease_until is null and {_UNUSED}
"""

_CONDEMNED = "lease_until is not null and dropped_at is not null"

CONDEMNED = f"select id from statestore_spool_blob where {_CONDEMNED} order by id limit %(limit)s"

TAKE_CHUNKS = f"""
delete from statestore_spool_chunk where id {{batch}}
    select id from statestore_spool_chunk where blob_id = %(blob)s order by number limit %(limit)s {{end}}
) and exists (select 1 from statestore_spool_blob where id = %(blob)s and {_CONDEMNED})
returning 1
"""

TAKE_BLOB = f"""
delete from statestore_spool_blob
where id = %(blob)s and {_CONDEMNED}
    and not exists (select 1 from statestore_spool_chunk c where c.blob_id = statestore_spool_blob.id)
returning 1
"""

# A purge that has chosen the blob, but not yet condemned it, finds it newly dropped and lets it be.
KEEP = """
update statestore_spool_blob as b set dropped_at = {now}
where b.dropped_at is not null and b.lease_until is null
    and b.id in (select blob_id from statestore_spool_use where task_id = %(source)s)
"""

COPY_USES = """
insert into statestore_spool_use (task_id, blob_id, name)
select %(target)s, u.blob_id, u.name from statestore_spool_use u join statestore_spool_blob b on b.id = u.blob_id
where u.task_id = %(source)s and b.dropped_at is not null and b.lease_until is null
on conflict (task_id, blob_id) do nothing
"""


class SpoolPurgeStatements(DatabasePrimitives):
    """Fill in what a purge does to blobs, and what a fork does."""

    def spool_purge_writing(self, limit: int) -> Action[int]:
        return Call(self._purge, CONDEMN_WRITING, {"limit": limit})

    def spool_purge_dropped(self, grace: int, limit: int) -> Action[int]:
        return Call(self._purge, CONDEMN_DROPPED, {"grace": grace, "limit": limit})

    def spool_copy_uses(self, source: int, target: int) -> None:
        """Let the task ``target`` keep what ``source`` keeps. Call it within a transaction."""
        self.rows(KEEP, {"source": source})
        self.rows(COPY_USES, {"source": source, "target": target})

    def _purge(self, condemn: str, parameters: Mapping[str, Any]) -> int:
        self._own(condemn, parameters)
        return sum(self._take(blob) for (blob,) in self._own(CONDEMNED, {"limit": parameters["limit"]}))

    def _take(self, blob: int) -> int:
        while len(self._own(TAKE_CHUNKS, {"blob": blob, "limit": CHUNKS_AT_ONCE})) == CHUNKS_AT_ONCE:
            pass
        return len(self._own(TAKE_BLOB, {"blob": blob}))

    def _own(self, template: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Send one statement as a unit of its own: each takes effect once, however often it is sent."""
        return self.database.attempt(lambda: self.rows(template, parameters), repeatable=True)
