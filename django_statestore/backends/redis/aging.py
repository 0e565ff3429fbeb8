"""How a test lets time pass on Redis: what expires in a namespace expires that much earlier; fences stay."""

from __future__ import annotations

from collections.abc import Sequence

from ...flow import Flow, run
from . import durable, queue_lua
from .command import Command, Script, nothing
from .listing import ListingCommands

_AGE = Script("""
local left = redis.call('PTTL', KEYS[1])
if left >= 0 and left <= tonumber(ARGV[1]) then
    redis.call('DEL', KEYS[1])
elseif left >= 0 then
    redis.call('PEXPIRE', KEYS[1], left - tonumber(ARGV[1]))
end
return 0
""")

AGING: dict[str, tuple[Script, Sequence[str]]] = {
    "kv": (_AGE, ()),
    "list": (_AGE, ()),
    "lock": (_AGE, ()),
    "dedup": (_AGE, ()),
    "dedup.claim": (_AGE, ()),
    "handoff": (_AGE, ()),
    "spool.blob": (_AGE, ()),
    "durable": (durable.AGE, ()),
    "queue": (queue_lua.AGE, queue_lua.PARTS[1:]),
}
"""For each part that keys are looked for by: the script, and the other parts of an entry that it takes."""


class AgingCommands(ListingCommands):
    """Make everything of one namespace older."""

    def age(self, namespace: str, milliseconds: int) -> None:
        run(self._aged(namespace, milliseconds))

    def _aged(self, namespace: str, milliseconds: int) -> Flow[None]:
        for part, (script, others) in AGING.items():
            for name, node in (yield from self.keys_flow(part, namespace)).items():
                keys = [name, *(self.names_of.sibling(part, name, other) for other in others)]
                yield from self.server.do_at(node, [Command(script, keys, [milliseconds], nothing, writes=True)])
