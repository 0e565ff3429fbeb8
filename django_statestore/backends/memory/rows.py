"""The rows of kv, handoff, lock and dedup."""

from __future__ import annotations

from dataclasses import dataclass

from .clock import earlier
from .shelf import Row


@dataclass(slots=True, eq=False)
class Value(Row):
    """Hold one payload. In handoff the key is the digest: the id itself is not kept."""

    payload: str

    @property
    def size(self) -> int:
        return len(self.payload)  # a payload is ASCII


@dataclass(slots=True, eq=False)
class Hold(Row):
    """Hold one lock; ``token`` is a digest."""

    expires_at: int
    token: bytes
    fence: int


@dataclass(slots=True, eq=False)
class Window(Row):
    """Hold one event: with a token it is a claim that is pending, without one a window."""

    expires_at: int
    token: bytes | None
    window_ends_at: int | None
    """When the window of a pending claim will end."""

    @property
    def forget_at(self) -> int:
        # A claim whose lease is over may still be confirmed.
        return self.expires_at if self.window_ends_at is None else max(self.expires_at, self.window_ends_at)

    def age(self, by: int) -> None:
        self.expires_at -= by
        self.window_ends_at = earlier(self.window_ends_at, by)
