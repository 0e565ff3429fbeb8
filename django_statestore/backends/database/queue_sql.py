"""The statements of queue. The head deals the order and keeps the count; whoever changes either holds the head.

On PostgreSQL the head is locked by a statement of its own: the next one then sees all that was committed before. One
statement that does both would look for items with eyes from before its wait, and answer "empty" beside an item.
"""

from __future__ import annotations

_ITEM = "statestore_queue_item"

_THERE = "(expires_at is null or expires_at > {now})"

_FREE = f"(hidden_until is null or hidden_until <= {{now}}) and {_THERE}"

_QUEUE_OF = "queue_id = (select id from statestore_queue where digest = %(id)s)"

LOCK = "select id from statestore_queue where digest = %(id)s for update"

# -- enqueue on PostgreSQL --------------------------------------------------------------------------------------------

DEAL = """
insert into statestore_queue as q (digest, namespace, key, seq, stored) values (%(id)s, %(namespace)s, %(key)s, 1, 0)
on conflict (digest) do update set seq = q.seq + 1
returning id, seq
"""

FILL = f"""
with clock as materialized (select clock_timestamp() as read),
dead as (
    delete from {_ITEM} i using clock where i.queue_id = %(queue)s and i.expires_at <= clock.read returning 1
),
room as (
    select q.stored - (select count(*) from dead) as stored from statestore_queue q where q.id = %(queue)s
),
evicted as (
    delete from {_ITEM} where id = any (array(
        select i.id from {_ITEM} i, clock
        where i.queue_id = %(queue)s and (i.expires_at is null or i.expires_at > clock.read)
        order by i.seq limit (
            select case when %(drop_oldest)s then greatest(stored + 1 - %(max_size)s::bigint, 0) else 0 end from room
        )
    )) returning 1
),
added as (
    insert into {_ITEM} (queue_id, seq, value, deliveries, expires_at, created_at)
    select %(queue)s, %(seq)s, %(value)s, 0, clock.read + %(ttl)s::bigint * interval '1 millisecond', clock.read
    from clock, room where %(drop_oldest)s or room.stored < %(max_size)s::bigint
    returning 1
)
update statestore_queue q
set stored = room.stored - (select count(*) from evicted) + (select count(*) from added)
from room where q.id = %(queue)s
returning q.stored, (select count(*) from added)
"""

# -- enqueue on SQLite ------------------------------------------------------------------------------------------------

# Counts as if the item went in; where it does not, or others go, ``COUNT`` sets that right. The statements that follow
# judge by the instant of this one: what expires meanwhile is still counted, so it must still be there.
DEAL_AND_COUNT = f"""
insert into statestore_queue (digest, namespace, key, seq, stored) values (%(id)s, %(namespace)s, %(key)s, 1, 1)
on conflict (digest) do update set seq = seq + 1,
    stored = stored + 1 - (
        select count(*) from {_ITEM} i where i.queue_id = statestore_queue.id and i.expires_at <= {{now}}
    )
returning id, seq, stored,
    (select count(*) from {_ITEM} i where i.queue_id = statestore_queue.id and i.expires_at <= {{now}}), {{now}}
"""

MAKE_ROOM = f"""
delete from {_ITEM} where id in (
    select id from {_ITEM} where queue_id = %(queue)s and expires_at <= %(instant)s
    union all
    select id from (
        select id from {_ITEM} where queue_id = %(queue)s and (expires_at is null or expires_at > %(instant)s)
        order by seq limit %(count)s
    )
)
"""

COUNT = "update statestore_queue set stored = %(stored)s where id = %(queue)s"

ADD = f"""
insert into {_ITEM} (queue_id, seq, value, deliveries, expires_at, created_at)
values (%(queue)s, %(seq)s, %(value)s, 0, {{after[ttl]}}, {{now}})
"""

# -- dequeue, take, ack -----------------------------------------------------------------------------------------------

_FIRST_OF_LOCKED = f"select id from {_ITEM} where queue_id = %(queue)s and {_FREE} order by seq limit 1"

_FIRST_OF_NAMED = f"select id from {_ITEM} where {_QUEUE_OF} and {_FREE} order by seq limit 1"

_COUNTED = """
counted as (
    update statestore_queue set stored = stored - 1 where id = %(queue)s and exists (select 1 from gone)
)
"""

DEQUEUE_LOCKED = f"""
with gone as (delete from {_ITEM} where id = ({_FIRST_OF_LOCKED}) returning value), {_COUNTED}
select value from gone
"""

DEQUEUE = f"delete from {_ITEM} where id = ({_FIRST_OF_NAMED}) returning queue_id, value"

LESS = "update statestore_queue set stored = stored - %(count)s where id = %(queue)s"

_TAKEN = "token = %(token)s, hidden_until = {after[lease]}, deliveries = deliveries + 1"

TAKE_LOCKED = f"update {_ITEM} set {_TAKEN} where id = ({_FIRST_OF_LOCKED}) returning value, deliveries"

TAKE = f"update {_ITEM} set {_TAKEN} where id = ({_FIRST_OF_NAMED}) returning value, deliveries"

# Whether the lease is over is not asked: while nobody else took the item, its taker's word counts.
_MINE = f"token = %(token)s and {_QUEUE_OF} and {_THERE}"

ACK_LOCKED = f"""
with gone as (delete from {_ITEM} where {_MINE} returning 1), {_COUNTED}
select 1 from gone
"""

ACK = f"delete from {_ITEM} where {_MINE} returning queue_id"

RELEASE = f"update {_ITEM} set token = null, hidden_until = {{after[delay]}} where {_MINE} returning 1"

PEEK = f"select value from {_ITEM} where id = ({_FIRST_OF_NAMED})"

_LEFT = f"""
stored - (select count(*) from {_ITEM} i where i.queue_id = statestore_queue.id and i.expires_at <= {{clock}})
"""

DEPTH = f"select {_LEFT} from statestore_queue where digest = %(id)s"

# -- the end of queues ------------------------------------------------------------------------------------------------

DELETE_HEAD = f"delete from statestore_queue where digest = %(id)s returning id, {_LEFT}"

ITEMS_OF = f"delete from {_ITEM} where queue_id = %(queue)s"

WITH_DEAD = f"select distinct queue_id from {_ITEM} where expires_at <= {{clock}} limit %(limit)s"

BURY = f"""
delete from {_ITEM} where id in ({{batch}}
    select id from {_ITEM} where queue_id = %(queue)s and expires_at <= {{clock}}
    order by expires_at limit %(limit)s {{end}}
) returning 1
"""

HOLD = "update statestore_queue set seq = seq where id = %(queue)s"

EMPTY = """
delete from statestore_queue where id in ({batch}
    select id from statestore_queue where stored = 0 order by id limit %(limit)s {end}
) and stored = 0
returning 1
"""
