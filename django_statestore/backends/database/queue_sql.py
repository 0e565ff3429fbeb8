"""The statements of queue. The head deals the order and keeps the count; whoever changes either holds the head.

On PostgreSQL the head is locked by a statement of its own: the next one then sees all that was committed before. One
statement that does both would look for items with eyes from before its wait, and answer "empty" beside an item.

The count is that of the items alive at ``counted_at``. An enqueue moves that instant to now, and counts, by the index
alone, what has expired in between: each item once in its life, however many expire at once. Whoever else removes rows
takes off those that were counted, ``_COUNTED``. So a dead row may stay, out of the count, until it is buried.
"""

from __future__ import annotations

from .queue_find import BLOCK, ITEM, LEFT, Search, next_of

_NAMED = Search("(select id from statestore_queue where digest = %(id)s)", "{clock}")

_LOCKED = Search("%(queue)s", "{clock}")

_DEAD = f"({next_of('expires_at', 'q.id')}) <= {{now}}"

_LAPSED = f"({next_of('hidden_until', 'q.id')}) <= {{now}}"

# It tells too whether anything is dead or lapsed; as of before the wait, so that only the speed of what follows may
# depend on it: of each statement there is one for either case. A head that was there before the wait and not after it
# comes back without its id: in the same step another may have been put in its place, which is not seen yet.
LOCK = f"""
with held as (
    select q.id, {_DEAD} or {_LAPSED} as dusty from statestore_queue q where q.digest = %(id)s for update of q
)
select id, dusty from held
union all
select null, false
where not exists (select 1 from held) and exists (select 1 from statestore_queue where digest = %(id)s)
"""

# -- enqueue on PostgreSQL --------------------------------------------------------------------------------------------

DEAL = """
insert into statestore_queue as q (digest, namespace, key, seq, stored, counted_at, peak)
values (%(id)s, %(namespace)s, %(key)s, 1, 0, {now}, {now})
on conflict (digest) do update set seq = q.seq + 1
returning id, seq
"""

DEAL_AND_LOOK = f"{DEAL}, {_DEAD}"

_AT_ONCE = Search("%(queue)s", "(select read from clock)")


def _fill(*, limited: bool, dusty: bool = False) -> str:
    over = "case when %(drop_oldest)s then greatest(counted.stored + 1 - %(max_size)s::bigint, 0) else 0 end"
    evicted = f"""
evicted as (
    delete from {ITEM} where id = any (array({_AT_ONCE.oldest(f"(select {over} from counted)", plainly=not dusty)}))
    returning 1
),
"""
    fits = "where %(drop_oldest)s or counted.stored < %(max_size)s::bigint"
    return f"""
with clock as materialized (select {{now}} as read),
counted as materialized (
    select
        q.stored - case when clock.read < q.counted_at then -1 else 1 end * (
            select count(*) from {ITEM} i where i.queue_id = q.id
                and i.expires_at > least(clock.read, q.counted_at)
                and i.expires_at <= greatest(clock.read, q.counted_at)
        ) as stored,
        clock.read,
        clock.read + %(ttl)s::bigint * interval '1 millisecond' as expires_at,
        case
            when %(seq)s::bigint %% {BLOCK} = 0 then clock.read + %(ttl)s::bigint * interval '1 millisecond'
            when q.peak is not null and %(ttl)s::bigint is not null
            then greatest(q.peak, clock.read + %(ttl)s::bigint * interval '1 millisecond')
        end as peak
    from statestore_queue q, clock where q.id = %(queue)s
),
buried as (delete from {ITEM} where id = any (array({_AT_ONCE.dead}))),
{evicted if limited else ""}
added as (
    insert into {ITEM} (queue_id, seq, value, free, deliveries, expires_at, peak, created_at)
    select %(queue)s, %(seq)s, %(value)s, true, 0, expires_at, peak, read from counted {fits if limited else ""}
    returning 1
)
update statestore_queue q
set stored = counted.stored - {"(select count(*) from evicted)" if limited else "0"} + (select count(*) from added),
    counted_at = counted.read, peak = counted.peak
from counted where q.id = %(queue)s
returning q.stored, (select count(*) from added)
"""


FILL = _fill(limited=False)

FILL_WITHIN = _fill(limited=True)

FILL_WITHIN_DUSTY = _fill(limited=True, dusty=True)

# -- enqueue on SQLite ------------------------------------------------------------------------------------------------

# Counts as if the item went in; where it does not, or others go, ``COUNT`` sets that right. The statements that follow
# judge by the instant of this one: what expires meanwhile is still counted, so it must still be there.
DEAL_AND_COUNT = f"""
insert into statestore_queue (digest, namespace, key, seq, stored, counted_at, peak)
values (%(id)s, %(namespace)s, %(key)s, 1, 1, {{now}}, {{after[ttl]}})
on conflict (digest) do update set seq = seq + 1, stored = {LEFT} + 1, counted_at = {{now}},
    peak = case when (seq + 1) %% {BLOCK} = 0 then {{after[ttl]}} else {{greatest}}(peak, {{after[ttl]}}) end
returning id, seq, stored, peak, counted_at,
    ({next_of("expires_at", "statestore_queue.id")}) <= {{clock}}
"""

_JUDGED = Search("%(queue)s", "%(instant)s")

EVICT = f"delete from {ITEM} where id in ({_JUDGED.oldest('%(count)s', plainly=True)})"

BURY_AND_EVICT = f"""
delete from {ITEM} where id in (
    select id from ({_JUDGED.dead}) d union all select id from ({_JUDGED.oldest("%(count)s", plainly=False)}) o
)
"""

COUNT = "update statestore_queue set stored = %(stored)s where id = %(queue)s"

ADD = f"""
insert into {ITEM} (queue_id, seq, value, free, deliveries, expires_at, peak, created_at)
values (%(queue)s, %(seq)s, %(value)s, true, 0, %(instant)s + %(ttl)s, %(peak)s, %(instant)s)
"""

# -- dequeue, take, ack on PostgreSQL ---------------------------------------------------------------------------------

_ALIVE = "(expires_at is null or expires_at > {now})"

# By the token first: a planner might prefer to look through the queue. Whether the lease is over is not asked: while
# nobody else took the item, its taker's word counts.
_MINE = f"""
id = (select id from {ITEM} where token = %(token)s)
and queue_id = (select id from statestore_queue where digest = %(id)s) and {_ALIVE}
"""

_TAKEN = "free = false, token = %(token)s, hidden_until = {after[lease]}, deliveries = deliveries + 1"

_FIRST = f"first as materialized (select {_LOCKED.first} as id)"

# What is alive when one part of the statement looks at it may be dead for another.
_FREED = f"""
freed as (
    update {ITEM} set free = true, hidden_until = null where id = any (array(
        select i.id from ({_LOCKED.lapsed}) i
        where {_LOCKED.many} and {_LOCKED.alive} and i.id is distinct from (select id from first)
    ))
)
"""

_BURIED = f"""
buried as (
    delete from {ITEM} where id = any (array({_LOCKED.dead})) and id is distinct from (select id from first)
    returning expires_at
),
removed as (select expires_at from gone union all select expires_at from buried)
"""


def _counted(removed: str) -> str:
    return f"""
counted as (
    update statestore_queue q set stored = q.stored - (
        select count(*) from {removed} r where r.expires_at is null or r.expires_at > q.counted_at
    ) where q.id = %(queue)s and exists (select 1 from {removed})
)
"""


DEQUEUE_LOCKED = f"""
with gone as (delete from {ITEM} where id = {_LOCKED.plainly_first} returning value, expires_at), {_counted("gone")}
select value from gone
"""

DEQUEUE_DUSTY = f"""
with {_FIRST}, {_FREED},
gone as (delete from {ITEM} where id = (select id from first) returning value, expires_at),
{_BURIED}, {_counted("removed")}
select value from gone
"""

TAKE_LOCKED = f"update {ITEM} set {_TAKEN} where id = {_LOCKED.plainly_first} returning value, deliveries"

TAKE_DUSTY = f"""
with {_FIRST}, {_FREED}
update {ITEM} set {_TAKEN} where id = (select id from first) returning value, deliveries
"""

ACK_LOCKED = f"""
with gone as (delete from {ITEM} where {_MINE} returning expires_at), {_counted("gone")}
select 1 from gone
"""

ACK_DUSTY = f"""
with first as materialized (select id from {ITEM} where {_MINE}),
gone as (delete from {ITEM} where id = (select id from first) returning expires_at),
{_BURIED}, {_counted("removed")}
select 1 from gone
"""

_HERE = Search("q.id", "{clock}")

PEEK_PLAINLY = f"""
select dusty.yes, case when dusty.yes then null else (select value from {ITEM} where id = {_HERE.plainly_first}) end
from statestore_queue q, lateral (select coalesce({_DEAD} or {_LAPSED}, false) as yes offset 0) dusty
where q.digest = %(id)s
"""

# -- the same on SQLite -----------------------------------------------------------------------------------------------

# Of a row that goes: whether it lives, and whether it is in the count. After RETURNING, SQLite 3.40 takes ``is null``
# for false, whatever it is asked about.
_LIVES = "coalesce(expires_at > {clock}, true)"

_COUNTED = "coalesce(expires_at > (select q.counted_at from statestore_queue q where q.id = queue_id), true)"

# Only what lives has its value returned: the others are what was buried with it.
DEQUEUE = f"""
delete from {ITEM} where id = {_NAMED.first} or id in ({_NAMED.dead})
returning queue_id, case when {_LIVES} then value end, {_COUNTED}
"""

LESS = "update statestore_queue set stored = stored - %(count)s where id = %(queue)s"

TAKE = f"update {ITEM} set {_TAKEN} where id = {_NAMED.first} returning value, deliveries, {_NAMED.many}"

FREE = f"""
update {ITEM} set free = true, hidden_until = null
where id in (select i.id from ({_NAMED.lapsed}) i where {_NAMED.alive})
"""

ACK = f"""
delete from {ITEM} where id = (select id from {ITEM} where {_MINE}) or id in ({_NAMED.dead})
returning queue_id, {_LIVES}, {_COUNTED}
"""

# -- on both ----------------------------------------------------------------------------------------------------------

RELEASE = f"""
update {ITEM} set token = null, free = cast(%(delay)s as bigint) = 0,
    hidden_until = case when cast(%(delay)s as bigint) > 0 then {{after[delay]}} end
where {_MINE} returning 1
"""

PEEK = f"select value from {ITEM} where id = {_NAMED.first}"

DEPTH = f"select {LEFT} from statestore_queue where digest = %(id)s"

# -- the end of queues ------------------------------------------------------------------------------------------------

DELETE_HEAD = f"delete from statestore_queue where digest = %(id)s returning id, {LEFT}"

ITEMS_OF = f"delete from {ITEM} where queue_id = %(queue)s"

WITH_DEAD = f"""
select distinct queue_id from (
    select queue_id from {ITEM} where expires_at <= {{clock}} order by expires_at limit %(limit)s
) dead
"""

BURY = f"""
delete from {ITEM} where id {{batch}}
    select id from {ITEM} where queue_id = %(queue)s and expires_at <= {{clock}}
    order by expires_at limit %(limit)s {{end}}
) returning {_COUNTED}
"""

HOLD = "update statestore_queue set seq = seq where id = %(queue)s"

EMPTY = f"""
delete from statestore_queue where id {{batch}}
    select q.id from statestore_queue q
    where q.stored = 0 and not exists (select 1 from {ITEM} i where i.queue_id = q.id)
    order by q.id limit %(limit)s {{end}}
) and stored = 0
returning 1
"""
