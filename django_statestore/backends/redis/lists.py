"""list on Redis: one list an entry; the server forgets it when its time is over, or when it is emptied."""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.lists import ListPrimitives
from ...flow import Action
from ...keys import Entry
from .command import Script, nothing, number, texts, truth
from .primitives import Known, RedisPrimitives

_APPEND = Script("""
local length = redis.call('RPUSH', KEYS[1], ARGV[1])
if ARGV[2] ~= '' and length > tonumber(ARGV[2]) then
    redis.call('LTRIM', KEYS[1], '-' .. ARGV[2], -1)
    length = tonumber(ARGV[2])
end
if ARGV[3] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return length
""")

SIZE = Script("""
local size = 0
for _, payload in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do size = size + #payload end
return size
""")

_FAR = 2**53


class ListCommands(RedisPrimitives, ListPrimitives):
    """Fill in the primitives of list."""

    def list_append(self, entry: Entry, payload: str, max_len: int | None, ttl: int | None) -> Action[int]:
        key = self.key("list", entry)
        if max_len is None and ttl is None:
            return self.writes("RPUSH", [key], payload, read=number)
        cap = "" if max_len is None else min(max_len, _FAR)
        return self.writes(_APPEND, [key], payload, cap, "" if ttl is None else ttl, read=number)

    def list_range(self, entry: Entry, start: int, stop: int | None) -> Action[Sequence[str]]:
        last = -1 if stop is None else min(stop, _FAR)
        return self.reads("LRANGE", [self.key("list", entry)], min(start, _FAR), last, read=texts)

    def list_last(self, entry: Entry, count: int) -> Action[Sequence[str]]:
        # -0 would be the first.
        first, last = (-min(count, _FAR), -1) if count else (1, 0)
        return self.reads("LRANGE", [self.key("list", entry)], first, last, read=texts)

    def list_length(self, entry: Entry) -> Action[int]:
        return self.reads("LLEN", [self.key("list", entry)], read=number)

    def list_trim(self, entry: Entry, max_len: int) -> Action[None]:
        if max_len == 0:
            return self.writes("DEL", [self.key("list", entry)], read=nothing)
        return self.writes("LTRIM", [self.key("list", entry)], -min(max_len, _FAR), -1, read=nothing)

    def list_delete(self, entry: Entry) -> Action[bool]:
        return self.writes("DEL", [self.key("list", entry)], read=truth)

    def list_purge(self, limit: int) -> Action[int]:
        """Leave it to the server."""
        return Known(0)
