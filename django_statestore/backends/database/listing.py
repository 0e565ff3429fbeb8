"""How a namespace of any facet is counted, listed and cleared on a database."""

from __future__ import annotations

from dataclasses import dataclass

from ...contracts.base import EntryInfo, ListingPrimitives
from ...keys import prefix_end
from .primitives import DatabasePrimitives, reads, writes
from .queue_find import LEFT


@dataclass(frozen=True, slots=True)
class Listing:
    """Say how the rows of a facet are listed."""

    table: str
    size: str = "0"
    """An expression for the bytes of a row's value."""
    live: str = "(expires_at is null or expires_at > {clock})"
    left: str = "{seconds_until[expires_at]}"
    clear: str = ""
    """What ends every entry of a namespace; by default their rows are deleted."""
    after_clear: str = ""
    """What follows it in the same transaction."""
    kept: int = 0
    """Milliseconds for which an expired row is kept all the same."""
    over: str = "expires_at <= {before_clock[kept]}"
    """What is true of a row that may be purged."""
    durable: bool = False
    """Whether its writes must be durable when they return."""

    @property
    def count(self) -> str:
        return f"select count(*) from {self.table} where namespace = %(namespace)s and {self.live}"

    @property
    def clearing(self) -> str:
        return self.clear or f"delete from {self.table} where namespace = %(namespace)s"

    @property
    def purging(self) -> str:
        return f"""
        delete from {self.table} where id {{batch}}
            select id from {self.table} where {self.over} order by expires_at limit %(limit)s {{end}}
        ) and {self.over}
        returning 1
        """

    def scan(self, bounded: bool) -> str:
        end = "and key < %(end)s" if bounded else ""
        return f"""
        select key, {self.size}, {self.left} from {self.table}
        where namespace = %(namespace)s and key > %(after)s and key >= %(prefix)s {end} and {self.live}
        order by key limit %(limit)s
        """


LISTINGS = {
    "kv": Listing("statestore_kv", size="length(value)"),  # a payload is ASCII: its length is its bytes
    # A claim whose lease is over may still be confirmed: it stays for as long as its window would last.
    "dedup": Listing(
        "statestore_dedup",
        over="expires_at <= {before_clock[kept]} and (window_ends_at is null or window_ends_at <= {clock})",
    ),
    # A lock's row outlives the lock, for the sake of its next fence.
    "lock": Listing(
        "statestore_lock",
        clear="update statestore_lock set expires_at = {now} where namespace = %(namespace)s and expires_at > {now}",
        kept=86_400_000,
        durable=True,
    ),
    "handoff": Listing("statestore_handoff", size="length(value)"),
    "list": Listing(
        "statestore_list",
        size="(select coalesce(sum(length(i.value)), 0) from statestore_list_item i "
        "where i.list_id = statestore_list.id and i.seq > floor)",
        clear="update statestore_list set floor = seq, expires_at = {now} where namespace = %(namespace)s",
        after_clear="""
        delete from statestore_list_item where list_id in (
            select h.id from statestore_list h where h.namespace = %(namespace)s
        ) and seq <= (select h.floor from statestore_list h where h.id = list_id)
        """,
    ),
    "queue": Listing(
        "statestore_queue",
        size="(select coalesce(sum(length(i.value)), 0) from statestore_queue_item i "
        "where i.queue_id = statestore_queue.id and (i.expires_at is null or i.expires_at > {clock}))",
        live=f"{LEFT} > 0",
        left="null",
        clear="update statestore_queue set stored = 0 where namespace = %(namespace)s",
        # One that began in between counts items of its own.
        after_clear="""
        delete from statestore_queue_item where queue_id in (
            select q.id from statestore_queue q where q.namespace = %(namespace)s and q.stored = 0
        )
        """,
    ),
    # What is live and has lost its entry is dropped; what is being written is not live and may be finished later.
    "spool": Listing(
        "statestore_spool_entry",
        size="(select byte_length from statestore_spool_blob b where b.id = blob_id)",
        live="true",
        left="null",
        after_clear="""
        update statestore_spool_blob as b set dropped_at = {now}
        where namespace = %(namespace)s and lease_until is null and dropped_at is null
            and not exists (select 1 from statestore_spool_entry e where e.blob_id = b.id)
        """,
    ),
}


class ListingStatements(DatabasePrimitives, ListingPrimitives):
    """Fill in the primitives that every facet shares."""

    @reads
    def entries_count(self, facet: str, namespace: str) -> int:
        return int(self.rows(LISTINGS[facet].count, {"namespace": namespace})[0][0])

    @writes
    def entries_clear(self, facet: str, namespace: str) -> None:
        if LISTINGS[facet].durable:
            self.database.require_durable(f"{facet}.clear")
        listing, parameters = LISTINGS[facet], {"namespace": namespace}
        if not listing.after_clear:
            self.rows(listing.clearing, parameters)
            return
        with self.database.transaction():
            self.rows(listing.clearing, parameters)
            self.rows(listing.after_clear, parameters)

    @writes
    def entries_purge(self, facet: str, limit: int) -> int:
        listing = LISTINGS[facet]
        return len(self.rows(listing.purging, {"kept": listing.kept, "limit": limit}))

    @reads
    def entries_scan(self, facet: str, namespace: str, prefix: str, after: str, limit: int) -> list[EntryInfo]:
        end = prefix_end(prefix)
        bounds = {"namespace": namespace, "prefix": prefix, "after": after, "limit": limit}
        if end is not None:
            bounds["end"] = end
        rows = self.rows(LISTINGS[facet].scan(end is not None), bounds)
        return [EntryInfo(key, int(size), None if left is None else float(left)) for key, size, left in rows]
