"""How commands are done: by which node, and what follows from what it answers.

Only what cannot take effect twice is sent twice: reads, and what a server answered without doing it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from redis.exceptions import AskError, MovedError, NoScriptError, RedisError, TryAgainError

from ...exceptions import OutcomeUnknown, StateStoreError, StoreMisconfigured, StoreUnavailable
from ...flow import Action, Flow, Pause, arun, run
from .command import Argument, Command
from .faults import Lost, Refused, Unreached, told
from .location import Location
from .node import Node

T = TypeVar("T")

_TRIES = 16
"""How often a command may be sent on: a cluster that is being resharded answers with another node's address."""


class Server(ABC):
    """Be what the commands of a store go to: one server, or a cluster."""

    where: str

    @abstractmethod
    def locate(self, command: Command[Any]) -> Flow[Node]:
        """Return the node that serves the keys of a command."""

    @abstractmethod
    def primaries(self) -> Flow[Sequence[Node]]:
        """Return the nodes that hold all keys between them."""

    @abstractmethod
    def redirected(self, error: AskError) -> Flow[Node]:
        """Return the node that a MOVED or ASK reply names."""

    @abstractmethod
    def unreached(self, node: Node) -> Flow[bool]:
        """Return whether it is worth locating the keys anew, since the node cannot be reached."""

    @abstractmethod
    def close(self) -> None:
        """Close the blocking connections; the next call makes new ones."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next call makes new ones."""

    # -- doing --------------------------------------------------------------------------------------------------------

    def do(self, command: Command[T]) -> Action[T]:
        """Do one command: one round trip, unless the server does not know the script yet or a read is repeated."""
        return Doing(self._one, command)

    def do_all(self, commands: Sequence[Command[T]]) -> Action[list[T]]:
        """Do many commands, one round trip for each node that is concerned; they are not one step."""
        return Doing(self._many, commands)

    def do_at(self, node: Node, commands: Sequence[Command[T]]) -> Flow[list[T]]:
        """Do commands at a node, such as those that name no key."""
        replies = yield from self._at(node, commands)
        return [self._read(command, reply) for command, reply in zip(commands, replies, strict=True)]

    def _one(self, command: Command[T]) -> Flow[T]:
        node = yield from self.locate(command)
        return (yield from self.do_at(node, [command]))[0]

    def _many(self, commands: Sequence[Command[T]]) -> Flow[list[T]]:
        nodes: dict[Node, list[int]] = {}
        for index, command in enumerate(commands):
            nodes.setdefault((yield from self.locate(command)), []).append(index)
        results: dict[int, T] = {}
        failed: StateStoreError | None = None
        for node, indexes in nodes.items():
            try:
                done = yield from self.do_at(node, [commands[index] for index in indexes])
            except StateStoreError as error:  # the others are done all the same
                failed = failed or error
            else:
                results.update(zip(indexes, done, strict=True))
        if failed:
            raise failed
        return [results[index] for index in range(len(commands))]

    def _at(self, node: Node, commands: Sequence[Command[Any]]) -> Flow[list[Any]]:
        replies = list((yield from self._exchange(node, [command.pieces() for command in commands], commands)))
        for index, reply in enumerate(replies):
            if isinstance(reply, NoScriptError | AskError | TryAgainError):
                replies[index] = yield from self._again(node, commands[index], reply)
        return replies

    def _again(self, node: Node, command: Command[Any], reply: Any) -> Flow[Any]:
        """Send one command on for as long as the answer says that it was not done, and where to go."""
        whole = False
        for turn in range(_TRIES):
            asking: list[Sequence[Argument]] = []
            if isinstance(reply, NoScriptError):
                whole = True
            elif isinstance(reply, AskError):
                node = yield from self.redirected(reply)
                asking = [] if isinstance(reply, MovedError) else [("ASKING",)]
            elif isinstance(reply, TryAgainError):  # some of the keys have arrived at the slot's next node, others not
                yield from Pause(min(0.02 * 2**turn, 1))
                node = yield from self.locate(command)
            else:
                break
            reply = (yield from self._exchange(node, [*asking, command.pieces(whole=whole)], [command]))[-1]
        return reply

    def _exchange(
        self, node: Node, pieces: Sequence[Sequence[Argument]], commands: Sequence[Command[Any]]
    ) -> Flow[list[Any]]:
        lost = moved = False
        while True:
            try:
                return (yield from node.exchange(pieces))
            except Refused as error:
                raise self._told(error.reason) from None
            except Unreached as error:
                if not moved and commands[0].keys and (yield from self.unreached(node)):
                    node, moved = (yield from self.locate(commands[0])), True
                    continue
                raise StoreUnavailable(f"{self.where} cannot be reached: {error}") from error.reason
            except Lost as error:
                if any(command.writes for command in commands):
                    raise OutcomeUnknown(
                        f"the connection to {self.where} broke before it answered ({error}): "
                        "the write may or may not have taken effect"
                    ) from error.reason
                if lost:
                    raise StoreUnavailable(f"{self.where} does not answer: {error}") from error.reason
                lost = True

    def _read(self, command: Command[T], reply: Any) -> T:
        if isinstance(reply, RedisError):
            raise self._told(reply) from None
        return command.read(reply)

    def _told(self, error: Any) -> StateStoreError:
        return told(error, self.where)


class SingleServer(Server):
    """Be one server, or what stands for one."""

    def __init__(self, location: Location) -> None:
        self.where = location.where
        self._node = Node(location)

    def locate(self, command: Command[Any]) -> Flow[Node]:
        yield from ()
        return self._node

    def primaries(self) -> Flow[Sequence[Node]]:
        yield from ()
        return (self._node,)

    def redirected(self, error: AskError) -> Flow[Node]:
        yield from ()
        raise StoreMisconfigured(f"{self.where} is a node of a cluster: say so with the option 'cluster'")

    def unreached(self, node: Node) -> Flow[bool]:
        yield from ()
        return False

    def close(self) -> None:
        self._node.close()

    async def aclose(self) -> None:
        await self._node.aclose()


class Doing(Action[T]):
    """Be an action that is a flow itself."""

    __slots__ = ("_argument", "_flow")

    def __init__(self, flow: Any, *argument: Any) -> None:
        self._flow, self._argument = flow, argument

    def run(self) -> T:
        result: T = run(self._flow(*self._argument))
        return result

    async def arun(self) -> T:
        result: T = await arun(self._flow(*self._argument))
        return result
