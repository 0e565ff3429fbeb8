"""The durable contract on Redis: one hash an id, with the lease, the fence, and what was saved.

A lease that is over stays written down until another takes it: while nobody did, its holder may still commit. A hash
without a checkpoint expires a day after its lease; one with a checkpoint never does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...contracts.checkpoint import Checkpoint
from ...contracts.durable import DurablePrimitives
from ...exceptions import PayloadInvalid
from ...flow import Action
from ...keys import Entry
from .command import Command, Script, optional_number, truth
from .fences import DAY, NEXT_FENCE
from .primitives import RedisPrimitives

_CLOCK = """
local function now()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(n) return string.format('%.0f', n) end
"""

_CLAIM = Script(
    NEXT_FENCE
    + _CLOCK
    + """
local token, instant, fence, saved = unpack(redis.call('HMGET', KEYS[1], 'token', 'until', 'fence', 'checkpoint'))
local alive = token and tonumber(instant) > now()
if alive and token ~= ARGV[1] then return false end
if not alive then fence = next_fence(fence) end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'until', whole(now() + tonumber(ARGV[2])), 'fence', fence)
if not saved then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return fence
"""
)

_COMMIT = Script("""
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'checkpoint', ARGV[2], 'state', ARGV[3])
redis.call('PERSIST', KEYS[1])
return 1
""")

_SAVE = Script(
    _CLOCK
    + """
local token, instant = unpack(redis.call('HMGET', KEYS[1], 'token', 'until'))
if token and tonumber(instant) > now() then return 0 end
redis.call('HSET', KEYS[1], 'checkpoint', ARGV[1], 'state', ARGV[2])  -- first: a full server refuses it
redis.call('HDEL', KEYS[1], 'token', 'until')
redis.call('PERSIST', KEYS[1])
return 1
"""
)

# A full server refuses a script whose first write is HSET; a lease must be renewed there too.
_RENEW = Script(
    _CLOCK
    + """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
if redis.call('HEXISTS', KEYS[1], 'checkpoint') == 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
else
    redis.call('PERSIST', KEYS[1])
end
redis.call('HSET', KEYS[1], 'until', whole(now() + tonumber(ARGV[2])))
return 1
"""
)

_RELEASE = Script("""
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'token', 'until')
if redis.call('HEXISTS', KEYS[1], 'checkpoint') == 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
""")

AGE = Script("""
if redis.call('HEXISTS', KEYS[1], 'until') == 1 then redis.call('HINCRBY', KEYS[1], 'until', '-' .. ARGV[1]) end
local left = redis.call('PTTL', KEYS[1])
if left >= 0 then redis.call('PEXPIRE', KEYS[1], left - tonumber(ARGV[1])) end
return 0
""")
"""Let milliseconds pass for an id."""


class DurableCommands(RedisPrimitives, DurablePrimitives):
    """Fill in the primitives of durable."""

    def durable_load(self, entry: Entry) -> Action[tuple[Checkpoint, str] | None]:
        return self.reads("HMGET", [self.key("durable", entry)], "checkpoint", "state", read=_loaded)

    def durable_claim(self, entry: Entry, token: bytes, lease: int) -> Action[int | None]:
        return self.writes(_CLAIM, [self.key("durable", entry)], token, lease, lease + DAY, read=optional_number)

    def durable_commit(self, entry: Entry, token: bytes, checkpoint: Checkpoint, payload: str) -> Action[bool]:
        return self.writes(_COMMIT, [self.key("durable", entry)], token, _stored(checkpoint), payload, read=truth)

    def durable_save(self, entry: Entry, checkpoint: Checkpoint, payload: str) -> Action[bool]:
        return self.writes(_SAVE, [self.key("durable", entry)], _stored(checkpoint), payload, read=truth)

    def durable_renew(self, held: Sequence[tuple[Entry, bytes, int]]) -> Action[list[bool]]:
        return self.server.do_all([self._renewal(*lease) for lease in held])

    def durable_release(self, entry: Entry, token: bytes) -> Action[bool]:
        return self.writes(_RELEASE, [self.key("durable", entry)], token, DAY, read=truth)

    def _renewal(self, entry: Entry, token: bytes, lease: int) -> Command[bool]:
        return Command(_RENEW, [self.key("durable", entry)], [token, lease, lease + DAY], truth, writes=True)


def _stored(checkpoint: Checkpoint) -> str:
    """Return the checkpoint as text; its state is kept beside it."""
    return json.dumps(checkpoint.to_json() | {"state": None}, separators=(",", ":"))


def _loaded(reply: Any) -> tuple[Checkpoint, str] | None:
    document, payload = reply
    if document is None:
        return None
    try:
        return Checkpoint.from_json(json.loads(document)), payload.decode()
    except ValueError as error:
        raise PayloadInvalid("a checkpoint cannot be read: it was not written by this package") from error
