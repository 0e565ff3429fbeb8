"""lock on Redis: one key is there while the lock is held; another keeps the fence, for a day longer than any lock."""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.lock import LockPrimitives
from ...flow import Action
from ...keys import Entry
from .command import Command, Script, optional_number, truth
from .fences import DAY, NEXT_FENCE
from .primitives import RedisPrimitives

_ACQUIRE = Script(
    NEXT_FENCE
    + """
local held, fence = redis.call('GET', KEYS[1]), nil
if held then
    if held ~= ARGV[1] then return false end
    fence = redis.call('GET', KEYS[2])
end
if not fence then fence = next_fence(redis.call('GET', KEYS[2])) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], fence, 'PX', ARGV[3])
return fence
"""
)

_RELEASE = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return redis.call('DEL', KEYS[1])
""")

_EXTEND = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")

_FORCE_RELEASE = Script("""
if redis.call('DEL', KEYS[1]) == 0 then return 0 end
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 1
""")


class LockCommands(RedisPrimitives, LockPrimitives):
    """Fill in the primitives of lock."""

    def lock_acquire(self, entry: Entry, token: bytes, ttl: int) -> Action[int | None]:
        return self.writes(_ACQUIRE, self._lock_keys(entry), token, ttl, ttl + DAY, read=optional_number)

    def lock_release(self, entry: Entry, token: bytes) -> Action[bool]:
        return self.writes(_RELEASE, self._lock_keys(entry), token, DAY, read=truth)

    def lock_extend(self, entry: Entry, token: bytes, ttl: int) -> Action[bool]:
        return self.server.do(self._extension(entry, token, ttl))

    def lock_force_release(self, entry: Entry) -> Action[bool]:
        return self.writes(_FORCE_RELEASE, self._lock_keys(entry), DAY, read=truth)

    def lock_renew(self, held: Sequence[tuple[Entry, bytes, int]]) -> Action[list[bool]]:
        return self.server.do_all([self._extension(*lock) for lock in held])

    def _extension(self, entry: Entry, token: bytes, ttl: int) -> Command[bool]:
        return Command(_EXTEND, self._lock_keys(entry), [token, ttl, ttl + DAY], truth, writes=True)

    def _lock_keys(self, entry: Entry) -> Sequence[bytes]:
        return self.key("lock", entry), self.key("lock.fence", entry)
