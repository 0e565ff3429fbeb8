"""The SQL that finds the first item of a queue, and the dead, without passing over all that lies before.

Items leave the row in two ways that no statement sees happen: they expire, and their leases end; anywhere in the row,
for each has a time of its own. What an operation looks at, in a queue where D items are dead and not buried yet:

- What is taken is not looked at: the index has the free ones apart. ``FEW`` of those whose lease is over may be. Only
  where more are over, behind others that are not, are those others passed. Each take then frees ``FEW`` for good, so
  leases that end at once cost each of their items one update, a bounded number of them a take.
- What is dead is passed by the block of ``BLOCK`` places: one step tells by the ``peak`` of its last row that nothing
  in it can be alive. So D / BLOCK steps, and the rows of one block; another is walked through only where an item that
  outlives it is, or was, in it.
- Whoever writes the count buries ``FEW`` of the dead, and no operation adds more than one item: D falls to nothing, and
  its burial costs each item one delete.
"""

from __future__ import annotations

from dataclasses import dataclass

ITEM = "statestore_queue_item"

BLOCK = 1024
"""So many places in a row share a peak."""

FEW = 100
"""So many rows at most are buried or freed beside what an operation is for."""


def next_of(column: str, queue: str) -> str:
    """Select the first instant of a column in a queue. Of ``exists`` a planner may think that any row will do."""
    return f"select min(i.{column}) from {ITEM} i where i.queue_id = {queue} and i.{column} is not null"


@dataclass(frozen=True, slots=True)
class Search:
    """Build what finds items, of a queue and at an instant that a statement has in its own way."""

    queue: str
    instant: str

    @property
    def alive(self) -> str:
        return f"(i.expires_at is null or i.expires_at > {self.instant})"

    @property
    def dead(self) -> str:
        """Select the ids of the next items to bury."""
        return f"""
        select i.id from {ITEM} i where i.queue_id = {self.queue} and i.expires_at <= {self.instant}
        order by i.expires_at limit {FEW}
        """

    @property
    def lapsed(self) -> str:
        """Select items whose lease or delay is over."""
        return f"""
        select i.id, i.seq, i.expires_at from {ITEM} i
        where i.queue_id = {self.queue} and i.hidden_until <= {self.instant} order by i.hidden_until limit {FEW}
        """

    @property
    def many(self) -> str:
        """Tell whether ``lapsed`` has not all of them."""
        return f"(select count(*) from ({self.lapsed}) l) = {FEW}"

    @property
    def first(self) -> str:
        """Give the id of the first item that nobody has: a free one, or one that came back to a place before it."""
        free = self._first_of("true", self.alive)
        # For a planner a riddle: it must not take the index of the leases here, and sort all that are over.
        back = f"case when i.hidden_until <= {self.instant} then {self.alive} else false end"
        return f"""case
        when ({next_of("hidden_until", self.queue)}) <= {self.instant} then (
            select i.id from {ITEM} i where i.id in (
                {free},
                case when {self.many} then {self._first_of("false", back)}
                else (select i.id from ({self.lapsed}) i where {self.alive} order by i.seq limit 1) end
            ) order by i.seq limit 1
        )
        else {free} end"""

    @property
    def plainly_first(self) -> str:
        """Give the same id, with less effort where nothing is dead or lapsed, and much more where much is."""
        return f"""(
        select id from (
            select * from (
                select i.id, i.seq from {ITEM} i where i.queue_id = {self.queue} and i.free = true and {self.alive}
                order by i.seq limit 1
            ) free
            union all
            select i.id, i.seq from {ITEM} i
            where i.queue_id = {self.queue} and i.hidden_until <= {self.instant} and {self.alive}
        ) i order by seq limit 1
        )"""

    def oldest(self, count: str, plainly: bool) -> str:
        """Select the ids of so many items, the first that are alive, whether somebody has them or not."""
        parts = []
        for free in ("true", "false"):
            start = f"and i.seq >= (select i.seq from {ITEM} i where i.id = {self._first_of(free, self.alive)})"
            parts.append(f"""
            select * from (
                select i.id, i.seq from {ITEM} i
                where i.queue_id = {self.queue} and i.free = {free} and {self.alive} {"" if plainly else start}
                order by i.seq limit {count}
            ) part""")
        return f"select id from ({' union all '.join(parts)}) i order by seq limit {count}"

    def _first_of(self, free: str, fit: str) -> str:
        """Give the id of the first row that fits, of those that are free or of those that are not."""
        rows = f"{ITEM} i where i.queue_id = {self.queue} and i.free = {free}"
        end = f"w.seq - w.seq %% {BLOCK} + {BLOCK}"
        return f"""coalesce(
        (select i.id from (select * from {rows} order by i.seq limit 1) i where {fit}),
        (with recursive walk (seq, id) as (
            select (select i.seq from {rows} order by i.seq limit 1), cast(null as bigint)
            union all
            select (select i.seq from {rows} and i.seq >= {end} order by i.seq limit 1),
                case when (select i.peak from {rows} and i.seq < {end} order by i.seq desc limit 1) <= {self.instant}
                then null
                else (select i.id from {rows} and i.seq >= w.seq and i.seq < {end} and {fit} order by i.seq limit 1)
                end
            from walk w where w.seq is not null and w.id is null
        )
        select w.id from walk w where w.id is not null)
        )"""


LEFT = f"""
(statestore_queue.stored - (
    select count(*) from {ITEM} i where i.queue_id = statestore_queue.id
        and i.expires_at > statestore_queue.counted_at and i.expires_at <= {{clock}}
) + case when statestore_queue.counted_at <= {{clock}} then 0 else (
    select count(*) from {ITEM} i where i.queue_id = statestore_queue.id
        and i.expires_at > {{clock}} and i.expires_at <= statestore_queue.counted_at
) end)
"""
"""The live count now: that of ``counted_at`` less what has expired since. After it where a clock was set back."""
