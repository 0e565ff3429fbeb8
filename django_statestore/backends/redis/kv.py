"""kv on Redis: one string an entry, which the server itself forgets when its time is over."""

from __future__ import annotations

from ...contracts.kv import KVPrimitives
from ...flow import Action
from ...keys import Entry
from .command import Argument, Script, nothing, text, truth
from .primitives import RedisPrimitives

_TOUCH = Script("""
if ARGV[1] ~= '' then return redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
redis.call('PERSIST', KEYS[1])
return redis.call('EXISTS', KEYS[1])
""")


class KVCommands(RedisPrimitives, KVPrimitives):
    """Fill in the primitives of kv."""

    def kv_get(self, entry: Entry) -> Action[str | None]:
        return self.reads("GET", [self.key("kv", entry)], read=text)

    def kv_set(self, entry: Entry, payload: str, ttl: int | None) -> Action[None]:
        return self.writes("SET", [self.key("kv", entry)], payload, *_expiry(ttl), read=nothing)

    def kv_add(self, entry: Entry, payload: str, ttl: int | None) -> Action[bool]:
        return self.writes("SET", [self.key("kv", entry)], payload, "NX", *_expiry(ttl), read=truth)

    def kv_consume(self, entry: Entry) -> Action[str | None]:
        return self.writes("GETDEL", [self.key("kv", entry)], read=text)

    def kv_delete(self, entry: Entry) -> Action[bool]:
        return self.writes("DEL", [self.key("kv", entry)], read=truth)

    def kv_touch(self, entry: Entry, ttl: int | None) -> Action[bool]:
        return self.writes(_TOUCH, [self.key("kv", entry)], "" if ttl is None else ttl, read=truth)


def _expiry(ttl: int | None) -> tuple[Argument, ...]:
    return () if ttl is None else ("PX", ttl)
