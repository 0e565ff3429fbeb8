"""How an operation is described: once, for the blocking and the asynchronous client alike."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

Argument: TypeAlias = bytes | str | int
Read: TypeAlias = Callable[[Any], T]


class Script:
    """Be a Lua script. It is sent by its digest, and whole where the server does not know it yet."""

    __slots__ = ("digest", "text")

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


class Command(Generic[T]):
    """Describe one command, or script, with its keys and arguments, and how to read the reply.

    All keys are in one slot. ``writes``: sent twice it might take effect twice, so a lost answer is told and the
    command never repeated; else it is.
    """

    __slots__ = ("arguments", "keys", "read", "what", "writes")

    def __init__(
        self, what: str | Script, keys: Sequence[bytes], arguments: Sequence[Argument], read: Read[T], *, writes: bool
    ) -> None:
        self.what, self.keys, self.arguments, self.read, self.writes = what, keys, arguments, read, writes

    def pieces(self, *, whole: bool = False) -> Sequence[Argument]:
        """Return what to send; ``whole``: the script's text instead of its digest."""
        if isinstance(self.what, str):
            return (*self.what.split(), *self.keys, *self.arguments)
        head = ("EVAL", self.what.text) if whole else ("EVALSHA", self.what.digest)
        return (*head, len(self.keys), *self.keys, *self.arguments)


# -- how replies are read ---------------------------------------------------------------------------------------------


def nothing(reply: Any) -> None:
    """Read a reply that says nothing."""


def truth(reply: Any) -> bool:
    """Read a count, or "OK", as whether it did something."""
    return bool(reply)


def number(reply: Any) -> int:
    """Read a whole number."""
    return int(reply)


def optional_number(reply: Any) -> int | None:
    """Read a whole number, or None."""
    return None if reply is None else int(reply)


def text(reply: Any) -> str | None:
    """Read a payload, or None."""
    return None if reply is None else reply.decode()


def texts(reply: Any) -> list[str]:
    """Read payloads."""
    return [payload.decode() for payload in reply]


def raw(reply: Any) -> Any:
    """Leave the reply as it is: whole numbers, bytes, None, and lists of them."""
    return reply
