"""A cluster: which of its nodes serves which slots, learnt from the nodes themselves and learnt anew when they move."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import redis.connection
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, RedisError

from ...exceptions import StateStoreError, StoreMisconfigured, StoreUnavailable
from ...flow import Flow
from .command import Command
from .faults import Lost, Refused, Unreached
from .location import Location
from .node import Node
from .server import Server


@dataclass(frozen=True, slots=True)
class Topology:
    """Hold the ranges of slots, in order, and the node that serves each."""

    ends: Sequence[int] = ()
    ranges: Sequence[tuple[int, Node]] = ()
    """The first slot of each range, and its node."""

    def owner(self, slot: int) -> Node | None:
        index = bisect_left(self.ends, slot)
        if index < len(self.ends) and self.ranges[index][0] <= slot:
            return self.ranges[index][1]
        return None

    @property
    def primaries(self) -> Sequence[Node]:
        return tuple(dict.fromkeys(node for _, node in self.ranges))


class ClusterServer(Server):
    """Be a cluster of which a node, or some, are known beforehand."""

    def __init__(self, location: Location, option: str) -> None:
        self.where = location.where
        self._location, self._option = location, option
        self._hosts: dict[Node, str] = {}
        self._nodes: dict[tuple[str, int], Node] = {}
        self._topology = Topology()
        self._seed, *_ = [self._node_at(*self._address(url)) for url in (location.url, *location.others)]

    # -- what a server does -------------------------------------------------------------------------------------------

    def locate(self, command: Command[Any]) -> Flow[Node]:
        slot = key_slot(command.keys[0])
        node = self._topology.owner(slot) or (yield from self._refreshed()).owner(slot)
        if node is None:
            raise StoreUnavailable(f"{self.where} is not available: no node serves the slot of the key")
        return node

    def primaries(self) -> Flow[Sequence[Node]]:
        """Return the nodes as they are now: who looks at all of them cannot be told that one has moved."""
        return (yield from self._refreshed()).primaries

    def redirected(self, error: AskError) -> Flow[Node]:
        node = self._node_at(error.host or self._hosts[self._seed], error.port)
        if isinstance(error, MovedError):
            with suppress(StateStoreError):  # that node knows of it first
                yield from self._refreshed(first=node)
        return node

    def unreached(self, node: Node) -> Flow[bool]:
        try:
            yield from self._refreshed(without=node)
        except StateStoreError:
            return False
        return True

    def close(self) -> None:
        for node in list(self._nodes.values()):
            node.close()

    async def aclose(self) -> None:
        for node in list(self._nodes.values()):
            await node.aclose()

    # -- where the slots are ------------------------------------------------------------------------------------------

    def _refreshed(self, first: Node | None = None, without: Node | None = None) -> Flow[Topology]:
        """Ask the nodes that are known, one after the other, until one answers."""
        failed: Unreached | Lost | None = None
        known = dict.fromkeys([first or self._seed, *self._topology.primaries, self._seed, *self._nodes.values()])
        for node in [node for node in known if node is not without]:
            try:
                (reply,) = yield from node.exchange([("CLUSTER", "SLOTS")])
            except Refused as error:
                raise self._told(error.reason) from None
            except (Unreached, Lost) as error:
                failed = error
                continue
            if isinstance(reply, RedisError):
                if "cluster support disabled" in str(reply):
                    raise StoreMisconfigured(f"{self._option} is set, but {self.where} is no cluster: leave it out")
                raise self._told(reply)
            self._topology = self._read_slots(reply, self._hosts[node])
            return self._topology
        raise StoreUnavailable(f"{self.where} cannot be reached: {failed or 'no other node of it is known'}")

    def _read_slots(self, reply: Any, asked: str) -> Topology:
        found = sorted((int(end), int(start), primary) for start, end, primary, *_ in reply)
        # A node that does not know its own address leaves it out.
        nodes = [self._node_at(host.decode() if host and host != b"?" else asked, int(port))
                 for _, _, (host, port, *_) in found]  # fmt: skip
        starts = [start for _, start, _ in found]
        return Topology([end for end, _, _ in found], list(zip(starts, nodes, strict=True)))

    def _address(self, url: str) -> tuple[str, int]:
        try:
            parsed: Any = redis.connection.parse_url(url)  # type: ignore[no-untyped-call,unused-ignore]
        except ValueError:  # its text may show the password
            raise StoreMisconfigured(f"{self._option} needs URLs: one of {self.where} is none") from None
        if "path" in parsed:
            raise StoreMisconfigured(f"{self._option} needs the address of a node by host and port, not a Unix socket")
        return str(parsed.get("host", "localhost")), int(parsed.get("port", 6379))

    def _node_at(self, host: str, port: int) -> Node:
        if (host, port) not in self._nodes:
            node = Node(self._location, host=host, port=port)
            self._hosts[node] = host  # before anybody can find it
            self._nodes.setdefault((host, port), node)
        return self._nodes[host, port]
