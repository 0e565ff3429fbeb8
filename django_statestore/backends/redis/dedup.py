"""dedup on Redis: one key is there while a sighting is a repeat, empty for a window, marked for a pending claim.

Another keeps a claim for as long as it may still be confirmed, that is also after its lease: the token, and by how much
it outlives the window. So all instants are those of the server's own expiry.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.dedup import ClaimState, DedupPrimitives
from ...flow import Action
from ...keys import Entry
from .command import Script, truth
from .primitives import RedisPrimitives

_SEEN = Script("""
if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
redis.call('SET', KEYS[1], '', 'PX', ARGV[1])
redis.call('DEL', KEYS[2])
return 0
""")

_CLAIM = Script("""
local state = redis.call('GET', KEYS[1])
if state == '' then return 'done' end
if state then
    local claim = redis.call('GET', KEYS[2])
    if not claim or string.sub(claim, 1, 32) ~= ARGV[1] then return 'pending' end
end
local window, lease = tonumber(ARGV[2]), tonumber(ARGV[3])
local longer = math.max(window, lease)
redis.call('SET', KEYS[1], 'pending', 'PX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[1] .. string.format('%.0f', longer - window), 'PX', string.format('%.0f', longer))
return 'new'
""")

# A full server refuses a script whose first write is SET; what was handled must be noted there too.
_CONFIRM = Script("""
local claim = redis.call('GET', KEYS[2])
if not claim or string.sub(claim, 1, 32) ~= ARGV[1] then return 0 end
local left = redis.call('PTTL', KEYS[2]) - tonumber(string.sub(claim, 33))
redis.call('DEL', KEYS[2])
if left > 0 then
    redis.call('SET', KEYS[1], '', 'PX', string.format('%.0f', left))
else
    redis.call('DEL', KEYS[1])
end
return 1
""")

_FORGET = Script("""
local claim = redis.call('GET', KEYS[2])
if not claim or string.sub(claim, 1, 32) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
""")


class DedupCommands(RedisPrimitives, DedupPrimitives):
    """Fill in the primitives of dedup."""

    def dedup_seen(self, entry: Entry, ttl: int) -> Action[bool]:
        return self.writes(_SEEN, self._dedup_keys(entry), ttl, read=truth)

    def dedup_claim(self, entry: Entry, token: bytes, ttl: int, lease: int) -> Action[ClaimState | None]:
        return self.writes(_CLAIM, self._dedup_keys(entry), token, ttl, lease, read=_state)

    def dedup_confirm(self, entry: Entry, token: bytes) -> Action[bool]:
        return self.writes(_CONFIRM, self._dedup_keys(entry), token, read=truth)

    def dedup_forget(self, entry: Entry, token: bytes) -> Action[bool]:
        return self.writes(_FORGET, self._dedup_keys(entry), token, read=truth)

    def _dedup_keys(self, entry: Entry) -> Sequence[bytes]:
        return self.key("dedup", entry), self.key("dedup.claim", entry)


_STATES: dict[bytes, ClaimState] = {b"new": "new", b"pending": "pending", b"done": "done"}


def _state(reply: bytes) -> ClaimState:
    return _STATES[reply]
