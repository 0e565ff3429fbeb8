"""The scripts of queue.

An item has a number, dealt in order, and is in one of two sets by it: ready, or hidden (taken, or released with a
delay). Hidden items are in a third set by the instant at which they come back, and items that expire in a fourth by
that instant; what they hold is in one hash, under a letter and the number. So no operation costs more than a logarithm
of the depth for each item that it adds, moves or removes; of expired items it removes some whenever it comes by.
"""

from __future__ import annotations

from .command import Script

PARTS = ("queue", "queue.ready", "queue.hidden", "queue.back", "queue.ends")

_COMMON = """
local data, ready, hidden, back, ends = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local changed = false  -- what changes nothing writes nothing: it works on a server that takes no writes, too

local function whole(n) return string.format('%.0f', n) end

local function dead(item)
    local instant = redis.call('ZSCORE', ends, item)
    return instant and tonumber(instant) <= now
end

local function drop(item)
    changed = true
    local token = redis.call('HGET', data, 't' .. item)
    if token then redis.call('HDEL', data, 'T' .. token) end
    redis.call('HDEL', data, 'p' .. item, 'd' .. item, 't' .. item)
    for index = 2, 5 do redis.call('ZREM', KEYS[index], item) end
end

local function bury(limit)
    for _, item in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', whole(now), 'LIMIT', 0, limit)) do drop(item) end
end

local function stored() return redis.call('ZCARD', ready) + redis.call('ZCARD', hidden) end

local function depth() return stored() - redis.call('ZCOUNT', ends, '-inf', whole(now)) end

local function show(item)
    changed = true
    redis.call('ZREM', hidden, item)
    redis.call('ZREM', back, item)
    redis.call('ZADD', ready, item, item)
end

local function hide(item, duration)
    changed = true
    redis.call('ZREM', ready, item)
    redis.call('ZADD', hidden, item, item)
    redis.call('ZADD', back, whole(now + duration), item)
end

-- The first item that can be had. What has come back meanwhile takes its place first.
local function first()
    local returned
    repeat
        returned = redis.call('ZRANGEBYSCORE', back, '-inf', whole(now), 'LIMIT', 0, 100)
        for _, item in ipairs(returned) do show(item) end
    until #returned == 0
    while true do
        local item = redis.call('ZRANGE', ready, 0, 0)[1]
        if not item or not dead(item) then return item end
        drop(item)
    end
end

local function oldest()
    local one, other = redis.call('ZRANGE', ready, 0, 0)[1], redis.call('ZRANGE', hidden, 0, 0)[1]
    if not one or (other and tonumber(other) < tonumber(one)) then return other end
    return one
end

-- The item that a token took and nobody else since; an expired one is not there.
local function mine(token)
    local item = redis.call('HGET', data, 'T' .. token)
    if item and dead(item) then
        drop(item)
        return false
    end
    return item
end

-- Leave nothing behind: an empty queue goes, and one whose items all expire goes with the last.
-- Before Redis 7.2 time goes on within a script, and a key is removed at once if its end has come meanwhile. A part
-- left alone would make the others look as if nothing in them expired. The first part has its end set last: if it is
-- still there, all of them are.
local function settle()
    local items, mortal = stored(), redis.call('ZCARD', ends)
    if items == 0 then
        redis.call('DEL', unpack(KEYS))
    elseif items == mortal then
        local last = redis.call('ZRANGE', ends, -1, -1, 'WITHSCORES')[2]
        for index = #KEYS, 1, -1 do redis.call('PEXPIREAT', KEYS[index], whole(tonumber(last))) end
        if redis.call('EXISTS', data) == 0 then redis.call('DEL', unpack(KEYS)) end
    elseif redis.call('PTTL', data) >= 0 then
        for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
    end
end
"""


def _script(text: str) -> Script:
    return Script(_COMMON + text)


ENQUEUE = _script("""
bury(100)
local count = depth()
if ARGV[2] ~= '' then
    local most = tonumber(ARGV[2])
    if count >= most and ARGV[3] == '0' then
        settle()
        return {0, count}
    end
    while count >= most do
        local item = oldest()
        if not dead(item) then count = count - 1 end
        drop(item)
    end
end
local item = whole(redis.call('HINCRBY', data, 'n', 1))
redis.call('HSET', data, 'p' .. item, ARGV[1])
redis.call('ZADD', ready, item, item)
if ARGV[4] ~= '' then redis.call('ZADD', ends, whole(now + tonumber(ARGV[4])), item) end
settle()
return {1, count + 1}
""")

DEQUEUE = _script("""
local item, payload = first(), false
if item then
    payload = redis.call('HGET', data, 'p' .. item)
    drop(item)
end
if changed then settle() end
return payload
""")

PEEK = _script("""
local item = first()
if changed then settle() end
return item and redis.call('HGET', data, 'p' .. item)
""")

DEPTH = _script("return depth()")

DELETE = _script("""
local count = depth()
redis.call('UNLINK', unpack(KEYS))
return count
""")

# A full server refuses a script whose first write adds something; who empties a queue must be let.
TAKE = _script("""
local item = first()
if not item then
    if changed then settle() end
    return false
end
local payload = redis.call('HGET', data, 'p' .. item)
hide(item, tonumber(ARGV[2]))
local before = redis.call('HGET', data, 't' .. item)
if before then redis.call('HDEL', data, 'T' .. before) end
redis.call('HSET', data, 't' .. item, ARGV[1], 'T' .. ARGV[1], item)
local deliveries = redis.call('HINCRBY', data, 'd' .. item, 1)
settle()
return {payload, deliveries}
""")

# Whether the lease is over is not asked: while nobody else took the item, its taker's word counts.
ACK = _script("""
local item = mine(ARGV[1])
if item then drop(item) end
if changed then settle() end
return item and 1 or 0
""")

RELEASE = _script("""
local item = mine(ARGV[1])
if item then
    redis.call('HDEL', data, 't' .. item, 'T' .. ARGV[1])
    if ARGV[2] == '0' then show(item) else hide(item, tonumber(ARGV[2])) end
end
if changed then settle() end
return item and 1 or 0
""")

SIZE = _script("""
local size = 0
for _, items in ipairs({ready, hidden}) do
    for _, item in ipairs(redis.call('ZRANGE', items, 0, -1)) do
        if not dead(item) then size = size + redis.call('HSTRLEN', data, 'p' .. item) end
    end
end
return size
""")

AGE = _script("""
for _, instants in ipairs({back, ends}) do
    for _, item in ipairs(redis.call('ZRANGE', instants, 0, -1)) do
        redis.call('ZINCRBY', instants, '-' .. ARGV[1], item)
    end
end
settle()
return 0
""")
