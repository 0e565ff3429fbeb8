"""A throw-away cluster for the tests: three primaries on free ports, out of the binary of the other servers.

By hand: `python -m tests.servers.cluster`, then Ctrl-D.
"""

import contextlib
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis

from tests.servers import valkey

SLOTS = 16_384
START_SECONDS = 30


class Node:
    """One server of the cluster; `url` is its address, `raw` a client of its own."""

    def __init__(self, port: int, bus: int, *options: str) -> None:
        self.port, self.bus = port, bus
        self.server = valkey.Server(
            "--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port", str(bus),
            "--cluster-node-timeout", "3000", "--cluster-require-full-coverage", "no",
            "--cluster-replica-validity-factor", "0", *options,
        )  # fmt: skip
        self.url = f"redis://127.0.0.1:{port}"
        self.raw = redis.Redis.from_url(self.server.url)
        self.id = self.ask("MYID").decode()

    def ask(self, *command: str | int) -> Any:
        """Send a command of CLUSTER and return the plain reply."""
        answer: Any = self.raw.execute_command("CLUSTER", *command)  # type: ignore[no-untyped-call,unused-ignore]
        return answer

    @property
    def slots(self) -> int:
        """Return how many slots the node knows an owner of."""
        return sum(end - start + 1 for start, end, *_ in self.ask("SLOTS"))

    def stop(self) -> None:
        self.raw.close()
        self.server.stop()


class Cluster:
    """Three primaries that hold all slots between them."""

    def __init__(self, *options: str) -> None:
        ports = free_ports(6)
        with ThreadPoolExecutor(3) as pool:
            self.nodes = list(pool.map(lambda pair: Node(*pair, *options), zip(ports[::2], ports[1::2], strict=True)))
        try:
            self._form()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return self.nodes[0].url

    def add(self, primary: Node) -> Node:
        """Start a replica of a primary, and wait until it follows."""
        port, bus = free_ports(2)
        node = Node(port, bus)
        self.nodes.append(node)
        node.ask("MEET", "127.0.0.1", primary.port, primary.bus)
        wait_for(lambda: node.slots == SLOTS)
        node.ask("REPLICATE", primary.id)
        wait_for(lambda: node.raw.info("replication").get("master_link_status") == "up")
        return node

    def stop(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(Node.stop, self.nodes))

    def _form(self) -> None:
        share = SLOTS // len(self.nodes) + 1
        for number, node in enumerate(self.nodes):
            node.ask("SET-CONFIG-EPOCH", number + 1)
            node.ask("ADDSLOTSRANGE", number * share, min((number + 1) * share, SLOTS) - 1)
        for node in self.nodes[1:]:
            self.nodes[0].ask("MEET", "127.0.0.1", node.port, node.bus)
        wait_for(lambda: all(node.slots == SLOTS and self._known(node) for node in self.nodes))

    def _known(self, node: Node) -> bool:
        state = node.ask("INFO")
        return b"cluster_state:ok" in state and f"cluster_known_nodes:{len(self.nodes)}".encode() in state


def free_ports(count: int) -> Sequence[int]:
    with contextlib.ExitStack() as open_:
        sockets = [open_.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise valkey.Unavailable("the cluster was not formed in time")
        time.sleep(0.02)


@contextlib.contextmanager
def serve() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.stop()


if __name__ == "__main__":
    with serve() as running:
        print(running.url, flush=True)  # noqa: T201
        sys.stdin.read()
