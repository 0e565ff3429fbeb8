"""What the primitives of all facets on Redis are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ...flow import Action
from ...keys import Entry
from .command import Argument, Command, Read, Script
from .names import Names
from .server import Server

T = TypeVar("T")


class RedisPrimitives:
    """Give the mixins of the facets their server and the names of their keys."""

    server: Server
    names_of: Names

    def key(self, part: str, entry: Entry) -> bytes:
        """Return the key of a part of an entry."""
        return self.names_of.of_entry(part, entry)

    def reads(self, what: str | Script, keys: Sequence[bytes], *arguments: Argument, read: Read[T]) -> Action[T]:
        """Make the action of a command that may be sent twice without harm."""
        return self.server.do(Command(what, keys, arguments, read, writes=False))

    def writes(self, what: str | Script, keys: Sequence[bytes], *arguments: Argument, read: Read[T]) -> Action[T]:
        """Make the action of a command that is sent once."""
        return self.server.do(Command(what, keys, arguments, read, writes=True))

    def can_renew(self) -> Action[bool]:
        return Known(True)

    def release_thread(self) -> None:
        """Keep what is open: the connections are shared by all threads."""


class Known(Action[T]):
    """Answer without asking the server."""

    __slots__ = ("_answer",)

    def __init__(self, answer: T) -> None:
        self._answer = answer

    def run(self) -> T:
        return self._answer

    async def arun(self) -> T:
        return self._answer
