"""Backends that are broken on purpose, each in one thing: time, keys, namespaces, values, atomicity, errors, secrets.

They are backends in memory with one primitive that does what real stores have done to their users.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django_statestore.backends.memory import MemoryBackend
from django_statestore.contracts.base import EntryInfo
from django_statestore.exceptions import StoreUnavailable
from django_statestore.flow import Action
from django_statestore.flow import Call as Do
from django_statestore.keys import Entry


def pause() -> None:
    """Let others in between a look and the write that relies on it."""
    time.sleep(0.01)


# -- time -------------------------------------------------------------------------------------------------------------


class CutsFractions(MemoryBackend):
    """Cut a fraction of a second down to zero, which then means no expiry."""

    def kv_set(self, entry: Entry, payload: str, ttl: int | None) -> Action[None]:
        return super().kv_set(entry, payload, (ttl and ttl // 1000 * 1000) or None)


class KeepsTheOldExpiry(MemoryBackend):
    """Leave the expiry of a key that is written again."""

    def kv_set(self, entry: Entry, payload: str, ttl: int | None) -> Action[None]:
        def work() -> None:
            row = self.memory.kv.get(entry.digest)
            old = None if row is None else row.expires_at
            super(KeepsTheOldExpiry, self).kv_set(entry, payload, ttl).run()
            row = self.memory.kv.get(entry.digest)
            if old is not None and row is not None:
                row.expires_at = old
                self.memory.kv.put(row)

        return Do(work)


class BlocksOnTheDead(MemoryBackend):
    """Insert or ignore: a key whose value has expired cannot be added."""

    def __init__(self) -> None:
        super().__init__()
        self.added: set[bytes] = set()

    def kv_set(self, entry: Entry, payload: str, ttl: int | None) -> Action[None]:
        self.added.add(entry.digest)
        return super().kv_set(entry, payload, ttl)

    def kv_add(self, entry: Entry, payload: str, ttl: int | None) -> Action[bool]:
        if entry.digest in self.added:
            return Do(lambda: False)
        self.added.add(entry.digest)
        return super().kv_add(entry, payload, ttl)


# -- keys and namespaces ----------------------------------------------------------------------------------------------


def _changed(name: str, change: Callable[[Entry], Entry], *primitives: str) -> type[MemoryBackend]:
    """Return a backend whose primitives of those names see another entry than they were given."""

    def changed(name: str) -> Callable[..., Any]:
        def primitive(self: MemoryBackend, entry: Entry, *arguments: Any) -> Any:
            return getattr(MemoryBackend, name)(self, change(entry), *arguments)

        return primitive

    return type(name, (MemoryBackend,), {primitive: changed(primitive) for primitive in primitives})


def _digest(*parts: str) -> bytes:
    return hashlib.sha256(":".join(parts).encode()).digest()


KV = ("kv_get", "kv_set", "kv_add", "kv_consume", "kv_delete", "kv_touch")
FoldsKeys = _changed(
    "FoldsKeys", lambda entry: replace(entry, digest=_digest(entry.namespace, entry.key.casefold().strip())), *KV
)
JoinsNames = _changed(
    "JoinsNames", lambda entry: replace(entry, digest=_digest(entry.namespace.replace("/", ":"), entry.key)), *KV
)


class SeesBelow(MemoryBackend):
    """Take a namespace for the beginning of others."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def kv_set(self, entry: Entry, payload: str, ttl: int | None) -> Action[None]:
        self.seen.add(entry.namespace)
        return super().kv_set(entry, payload, ttl)

    def entries_clear(self, facet: str, namespace: str) -> Action[None]:
        def work() -> None:
            for each in self.seen | {namespace}:
                if each.startswith(namespace):
                    super(SeesBelow, self).entries_clear(facet, each).run()

        return Do(work)


class MatchesPatterns(MemoryBackend):
    """Take a prefix for a pattern."""

    def entries_scan(self, facet: str, namespace: str, prefix: str, after: str, limit: int) -> Action[list[EntryInfo]]:
        def work() -> list[EntryInfo]:
            found = super(MatchesPatterns, self).entries_scan(facet, namespace, "", after, 1000).run()
            return [item for item in found if fnmatch.fnmatchcase(item.key, f"{prefix}*")][:limit]

        return Do(work)


# -- values -----------------------------------------------------------------------------------------------------------


class ReadsJson(MemoryBackend):
    """Keep values in a JSON type of the database: it sorts keys and makes fractions of large numbers."""

    def kv_set(self, entry: Entry, payload: str, ttl: int | None) -> Action[None]:
        value = json.loads(payload, parse_int=lambda text: int(text) if len(text) < 12 else float(text))
        return super().kv_set(entry, json.dumps(value, sort_keys=True, separators=(",", ":")), ttl)


class TakesEmptyForNothing(MemoryBackend):
    """Test the truth of what is stored."""

    def queue_dequeue(self, entry: Entry) -> Action[str | None]:
        def work() -> str | None:
            payload = super(TakesEmptyForNothing, self).queue_dequeue(entry).run()
            return payload if payload is not None and json.loads(payload) else None

        return Do(work)


# -- atomicity: a look, and then a write ------------------------------------------------------------------------------


class LooksThenConsumes(MemoryBackend):
    def kv_consume(self, entry: Entry) -> Action[str | None]:
        def work() -> str | None:
            payload = self.kv_get(entry).run()
            pause()
            self.kv_delete(entry).run()
            return payload

        return Do(work)


class LooksThenMarks(MemoryBackend):
    def dedup_seen(self, entry: Entry, ttl: int) -> Action[bool]:
        def work() -> bool:
            seen = bool(self.memory.dedup.get(entry.digest))
            pause()
            return super(LooksThenMarks, self).dedup_seen(entry, ttl).run() and seen

        return Do(work)


class LooksThenLocks(MemoryBackend):
    def lock_acquire(self, entry: Entry, token: bytes, ttl: int) -> Action[int | None]:
        def work() -> int | None:
            free = self.lock_extend(entry, token, ttl).run() or not self.memory.locks.get(entry.digest)
            pause()
            if free:
                self.lock_force_release(entry).run()
            return super(LooksThenLocks, self).lock_acquire(entry, token, ttl).run()

        return Do(work)


class LooksThenHandsOver(MemoryBackend):
    def handoff_take(self, entry: Entry) -> Action[str | None]:
        def work() -> str | None:
            payload = self.handoff_get(entry).run()
            pause()
            self.handoff_delete(entry).run()
            return payload

        return Do(work)


class SaysEmptyTooSoon(MemoryBackend):
    """Aim at the oldest item, and report an empty queue where another was quicker."""

    def queue_dequeue(self, entry: Entry) -> Action[str | None]:
        def work() -> str | None:
            aim = self.queue_peek(entry).run()
            pause()
            if self.queue_peek(entry).run() != aim:
                return None
            return super(SaysEmptyTooSoon, self).queue_dequeue(entry).run()

        return Do(work)


class RewritesTheList(MemoryBackend):
    """Read the list, add to it, and write it back."""

    def list_append(self, entry: Entry, payload: str, max_len: int | None, ttl: int | None) -> Action[int]:
        def work() -> int:
            values = [*self.list_range(entry, 0, None).run(), payload][-(max_len or 10**6) :]
            pause()
            self.list_delete(entry).run()
            for value in values:
                super(RewritesTheList, self).list_append(entry, value, None, ttl).run()
            return len(values)

        return Do(work)


# -- errors and secrets -----------------------------------------------------------------------------------------------


def _down(name: str) -> Callable[..., Action[Any]]:
    def primitive(self: MemoryBackend, *arguments: Any) -> Action[Any]:
        return Do(self.fail)  # type: ignore[attr-defined]

    primitive.__name__ = name
    return primitive


class Unplugged(MemoryBackend):
    """Be out of reach, and say so as a backend should: this one is not broken."""

    def fail(self) -> Any:
        raise StoreUnavailable("the memory is not available")


_FACETS = ("kv_", "list_", "lock_", "dedup_", "queue_", "handoff_", "spool_", "durable_", "entries_")
for _name in dir(MemoryBackend):
    if _name.startswith(_FACETS) and callable(getattr(MemoryBackend, _name)):
        setattr(Unplugged, _name, _down(_name))


class TakesOutagesForMisses(Unplugged):
    """Fail open: what cannot be reached holds nothing."""

    def kv_get(self, entry: Entry) -> Action[str | None]:
        return Do(lambda: None)

    def entries_count(self, facet: str, namespace: str) -> Action[int]:
        return Do(lambda: 0)


class ShowsItsDriversErrors(Unplugged):
    def fail(self) -> Any:
        raise OSError("connection refused")


class TellsWhatItCouldNotWrite(Unplugged):
    """Put the statement and what it was to write into the error."""

    def kv_set(self, entry: Entry, payload: str, ttl: int | None) -> Action[None]:
        def work() -> None:
            raise StoreUnavailable(f"could not set {payload}")

        return Do(work)


class TellsIds(MemoryBackend):
    """Log what was handed over, and by which id."""

    def handoff_set(self, entry: Entry, payload: str, ttl: int) -> Action[None]:
        logging.getLogger("toys").debug("state %s was set", entry.key)
        return super().handoff_set(entry, payload, ttl)


class TellsValues(MemoryBackend):
    def kv_set(self, entry: Entry, payload: str, ttl: int | None) -> Action[None]:
        logging.getLogger("toys").info("set %r to %s", entry.key, payload)
        return super().kv_set(entry, payload, ttl)
