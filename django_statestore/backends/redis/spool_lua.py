"""The scripts of spool.

An entry is one string: the version that it names, and its shape. A blob is one hash: its call id and shape, whether it
is being written, and for each chunk the bytes, under its number, and how many line ends lie before it, under the number
and an ``n``. So a blob has one expiry: the lease while it is written, the grace once it is dropped, none in between.

An entry's blob is a key that only the entry can tell, and every key of a script must be named beforehand. So the first
call is made as if there were no entry; where there is one it answers with the version that must be dropped too.
"""

from __future__ import annotations

from .command import Script

_NAMED = """
local named = redis.call('GET', KEYS[1])
local version = named and string.sub(named, 1, 32)
"""

# KEYS: entry, blob. ARGV: what the entry is to be, the lease, the fields of the blob.
STORE = Script(
    _NAMED
    + """
redis.call('HSET', KEYS[2], unpack(ARGV, 3))
if version then
    redis.call('HSET', KEYS[2], 'writing', 1)
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
    return version
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""
)

# KEYS: blob. ARGV: the lease, the fields.
BEGIN = Script("""
redis.call('HSET', KEYS[1], 'writing', 1, unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
""")

# The same.
APPEND = Script("""
if not redis.call('HGET', KEYS[1], 'writing') then return 0 end
if ARGV[2] then redis.call('HSET', KEYS[1], unpack(ARGV, 2)) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
""")

# KEYS: entry, blob, the blob that the entry names. ARGV: the version of that one, what the entry is to be, the lease,
# the grace, the last fields.
SETTLE = Script(
    """
if not redis.call('HGET', KEYS[2], 'writing') then return 0 end
"""
    + _NAMED
    + """
if ARGV[5] then redis.call('HSET', KEYS[2], unpack(ARGV, 5)) end
if version and version ~= ARGV[1] then
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
    return version
end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[2], 'writing')
redis.call('PERSIST', KEYS[2])
if version then redis.call('PEXPIRE', KEYS[3], ARGV[4]) end
return 1
"""
)

ABANDON = Script("""
if redis.call('HGET', KEYS[1], 'writing') then redis.call('UNLINK', KEYS[1]) end
return 0
""")

# KEYS: entry, the blob that it names. ARGV: the version of that one, the grace.
DELETE = Script(
    _NAMED
    + """
if not version then return 0 end
if version ~= ARGV[1] then return version end
redis.call('DEL', KEYS[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
"""
)

# KEYS: blob. ARGV: first line, the line after the last, the most chunks.
CHUNKS_OF_LINES = Script("""
local count = tonumber(redis.call('HGET', KEYS[1], 'chunks'))
if not count then return {} end

-- The line n begins right after the n-th line end: in the last chunk that has fewer than n of them before it.
local function chunk_of(line)
    local low, high = 0, count
    while low < high do
        local middle = math.floor((low + high) / 2)
        if tonumber(redis.call('HGET', KEYS[1], middle .. 'n')) < line then low = middle + 1 else high = middle end
    end
    return low - 1
end

local first = math.max(0, chunk_of(tonumber(ARGV[1])))
local last = math.min(chunk_of(tonumber(ARGV[2])), first + tonumber(ARGV[3]) - 1)
local found = {}
for number = first, last do
    local before, data = unpack(redis.call('HMGET', KEYS[1], number .. 'n', number))
    found[#found + 1] = number
    found[#found + 1] = before
    found[#found + 1] = data
end
return found
""")

SIZE = Script("""
return tonumber(string.match(redis.call('GET', KEYS[1]) or '', ' (%d+)') or 0)
""")
"""Return the bytes that an entry's blob holds."""
