"""handoff: carry-over state behind a one-shot id."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from .. import codec
from ..exceptions import ValueNotSerializable
from ..flow import Action, Flow, both
from ..keys import Entry
from ..ttl import Duration, milliseconds
from .base import Facet, ListingPrimitives
from .tokens import new_token


class HandoffPrimitives(ListingPrimitives):
    """Be what a backend fills in. The id itself is never stored: it is a capability."""

    @abstractmethod
    def handoff_set(self, entry: Entry, payload: str, ttl: int) -> Action[None]:
        """Write payload and expiry, whatever was there."""

    @abstractmethod
    def handoff_get(self, entry: Entry) -> Action[str | None]:
        """Return the live payload."""

    @abstractmethod
    def handoff_take(self, entry: Entry) -> Action[str | None]:
        """Remove the live entry and return its payload; one winner among any number of callers."""

    @abstractmethod
    def handoff_delete(self, entry: Entry) -> Action[bool]:
        """Remove the live entry; return whether there was one."""


class Handoff(Facet[HandoffPrimitives]):
    """Hand state over behind an id that works once. Ids are stored only as digests and cannot be listed.

    Missing, expired and taken look alike to a caller: None. Writes join the caller's transaction on a database.
    """

    name = "handoff"

    def _set(self, state_id: str, state: dict[str, Any], ttl: Duration) -> Flow[None]:
        """Store ``state``, a JSON object, behind ``state_id`` for ``ttl`` seconds, replacing what was there."""
        yield from self._backend.handoff_set(self._entry(state_id), _payload(state), milliseconds(ttl))

    def _issue(self, state: dict[str, Any], ttl: Duration) -> Flow[str]:
        """Store ``state`` for ``ttl`` seconds and return a new unguessable id for it."""
        state_id = new_token()
        yield from self._set(state_id, state, ttl)
        return state_id

    def _get(self, state_id: str) -> Flow[dict[str, Any] | None]:
        """Return the state and keep it, or None. To hand over once, use ``get_and_delete``."""
        return _state((yield from self._backend.handoff_get(self._entry(state_id))))

    def _get_and_delete(self, state_id: str) -> Flow[dict[str, Any] | None]:
        """Take the state: remove it and return it, or None. One winner in a race, on every backend."""
        return _state((yield from self._backend.handoff_take(self._entry(state_id))))

    def _delete(self, state_id: str) -> Flow[bool]:
        """Remove the state unread; return whether there was a live one."""
        return (yield from self._backend.handoff_delete(self._entry(state_id)))

    def _entry(self, key: str) -> Entry:
        return self._scope.entry(key, "the state id")

    set, aset = both(_set)
    issue, aissue = both(_issue)
    get, aget = both(_get)
    get_and_delete, aget_and_delete = both(_get_and_delete)
    delete, adelete = both(_delete)


def _payload(state: object) -> str:
    if type(state) is not dict:
        raise ValueNotSerializable("$", f"the state is a {type(state).__name__}", "give a dict: it is a JSON object")
    return codec.dumps(state)


def _state(payload: str | None) -> dict[str, Any] | None:
    if payload is None:
        return None
    state: dict[str, Any] = codec.loads(payload)
    return state
