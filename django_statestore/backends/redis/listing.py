"""How a namespace of any facet is counted, listed and cleared on Redis: its keys are looked for by their names.

SCAN goes through all keys of the server, so these cost as much as it holds; they block nobody meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...contracts.base import EntryInfo, ListingPrimitives
from ...exceptions import OutcomeUnknown, StoreUnavailable
from ...flow import Action, Flow
from . import lists, queue_lua, spool_lua
from .command import Command, Script, nothing, number, raw
from .node import Node
from .primitives import Known, RedisPrimitives
from .server import Doing

_STEP = 1000
_BATCH = 500
_GONE = -2


@dataclass(frozen=True, slots=True)
class Listing:
    """Say what keys a facet has of an entry. The one that names it is there for as long as the entry is alive."""

    part: str
    others: tuple[str, ...] = ()
    """What goes with it when it is cleared."""
    orphans: tuple[str, ...] = ()
    """Which of these may be there without it."""
    size: str | Script = ""
    """What to ask for the bytes of the value."""
    expires: bool = True


LISTINGS: dict[str, Listing] = {
    "kv": Listing("kv", size="STRLEN"),
    "list": Listing("list", size=lists.SIZE),
    "lock": Listing("lock"),
    "dedup": Listing("dedup", others=("dedup.claim",), orphans=("dedup.claim",)),
    "handoff": Listing("handoff", size="STRLEN"),
    "queue": Listing("queue", others=queue_lua.PARTS[1:], size=queue_lua.SIZE, expires=False),
    "spool": Listing("spool", size=spool_lua.SIZE),
}


class ListingCommands(RedisPrimitives, ListingPrimitives):
    """Fill in the primitives that every facet shares."""

    def entries_count(self, facet: str, namespace: str) -> Action[int]:
        return Doing(self._counted, LISTINGS[facet], namespace)

    def entries_clear(self, facet: str, namespace: str) -> Action[None]:
        return Doing(self._cleared, LISTINGS[facet], namespace)

    def entries_scan(self, facet: str, namespace: str, prefix: str, after: str, limit: int) -> Action[list[EntryInfo]]:
        return Doing(self._scanned, LISTINGS[facet], namespace, prefix, after, limit)

    def entries_purge(self, facet: str, limit: int) -> Action[int]:
        """Leave it to the server, which removes what has expired by itself."""
        return Known(0)

    # -- as flows -----------------------------------------------------------------------------------------------------

    def keys_flow(self, part: str, namespace: str, prefix: str = "") -> Flow[dict[bytes, Node]]:
        """Return the keys of a part within exactly a namespace, and where they are."""
        found: dict[bytes, Node] = {}
        stem, pattern = self.names_of.stem(part, namespace), self.names_of.pattern(part, namespace, prefix)
        for node in (yield from self.server.primaries()):
            cursor = b"0"
            while True:
                step = Command("SCAN", [], [cursor, "MATCH", pattern, "COUNT", _STEP], raw, writes=False)
                ((cursor, names),) = yield from self.server.do_at(node, [step])
                found.update((name, node) for name in names if name.startswith(stem))
                if cursor == b"0":
                    break
        return found

    def _counted(self, listing: Listing, namespace: str) -> Flow[int]:
        return len((yield from self.keys_flow(listing.part, namespace)))

    def _cleared(self, listing: Listing, namespace: str) -> Flow[None]:
        begun = False
        try:
            for part in (listing.part, *listing.orphans):
                by_node: dict[Node, list[Command[None]]] = {}
                for name, node in (yield from self.keys_flow(part, namespace)).items():
                    together = [self.names_of.sibling(part, name, other) for other in (listing.part, *listing.others)]
                    by_node.setdefault(node, []).append(Command("UNLINK", together, [], nothing, writes=True))
                for node, commands in by_node.items():
                    for start in range(0, len(commands), _BATCH):
                        yield from self.server.do_at(node, commands[start : start + _BATCH])
                        begun = True
        except StoreUnavailable as error:
            if not begun:
                raise
            raise OutcomeUnknown(f"{error}: some entries are gone, others may be left") from error.__cause__

    def _scanned(self, listing: Listing, namespace: str, prefix: str, after: str, limit: int) -> Flow[list[EntryInfo]]:
        part, past = listing.part, after.encode()
        keys = ((self.names_of.key_bytes(part, namespace, name), name, node)
                for name, node in (yield from self.keys_flow(part, namespace, prefix)).items())  # fmt: skip
        rest = sorted((each for each in keys if each[0] > past), key=lambda each: each[0])
        found: list[EntryInfo] = []
        while rest and len(found) < limit:  # some may have gone meanwhile
            batch, rest = rest[: limit - len(found)], rest[limit - len(found) :]
            found += yield from self._described(listing, batch)
        return found

    def _described(self, listing: Listing, batch: Sequence[tuple[bytes, bytes, Node]]) -> Flow[list[EntryInfo]]:
        infos: dict[bytes, EntryInfo] = {}
        by_node: dict[Node, list[tuple[bytes, bytes]]] = {}
        for key, name, node in batch:
            by_node.setdefault(node, []).append((key, name))
        for node, entries in by_node.items():
            commands: list[Command[int]] = []
            for _, name in entries:
                commands.append(Command("PTTL", [name], [], number, writes=False))
                commands.append(self._size_of(listing, name))
            replies = iter((yield from self.server.do_at(node, commands)))
            for key, _ in entries:
                left, size = next(replies), next(replies)
                if left != _GONE:
                    expires_in = left / 1000 if left >= 0 and listing.expires else None
                    infos[key] = EntryInfo(key.decode(), size, expires_in)
        return [infos[key] for key, _, _ in batch if key in infos]

    def _size_of(self, listing: Listing, name: bytes) -> Command[int]:
        if not listing.size:
            return Command("EXISTS", [name], [], lambda reply: 0, writes=False)
        together = [name]
        if isinstance(listing.size, Script):
            together += [self.names_of.sibling(listing.part, name, other) for other in listing.others]
        return Command(listing.size, together, [], number, writes=False)
