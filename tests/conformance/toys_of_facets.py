"""More backends that are broken on purpose: each breaks one rule of one contract, or declares itself wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django_statestore.backends.memory import MemoryBackend
from django_statestore.contracts.blob import Blob, Chunk, Shape, Use
from django_statestore.contracts.checkpoint import Checkpoint
from django_statestore.contracts.dedup import ClaimState
from django_statestore.contracts.queue import Enqueued, Taken
from django_statestore.flow import Action
from django_statestore.flow import Call as Do
from django_statestore.keys import Entry

# -- list -------------------------------------------------------------------------------------------------------------


class ClearsTheListExpiry(MemoryBackend):
    """Let an append without ttl take away the expiry of the list."""

    def list_append(self, entry: Entry, payload: str, max_len: int | None, ttl: int | None) -> Action[int]:
        def work() -> int:
            length = super(ClearsTheListExpiry, self).list_append(entry, payload, max_len, ttl).run()
            if ttl is None and (row := self.memory.lists.get(entry.digest)):
                row.expires_at = None
                self.memory.lists.put(row)
            return length

        return Do(work)


class TrimsToMinusZero(MemoryBackend):
    """Keep the whole list when none of it is to stay: minus zero is zero."""

    def list_trim(self, entry: Entry, max_len: int) -> Action[None]:
        return super().list_trim(entry, max_len or 10**6)


class StopsBeforeStop(MemoryBackend):
    """Take the end of a range as Python does."""

    def list_range(self, entry: Entry, start: int, stop: int | None) -> Action[Sequence[str]]:
        if stop == 0:
            return Do(list)
        return super().list_range(entry, start, None if stop is None else stop - 1)


# -- lock and dedup ---------------------------------------------------------------------------------------------------


class ReleasesForAnybody(MemoryBackend):
    def lock_release(self, entry: Entry, token: bytes) -> Action[bool]:
        return self.lock_force_release(entry)


class RevivesLocks(MemoryBackend):
    """Extend a lock that is over, as long as nobody took it."""

    def lock_extend(self, entry: Entry, token: bytes, ttl: int) -> Action[bool]:
        def work() -> bool:
            if super(RevivesLocks, self).lock_extend(entry, token, ttl).run():
                return True
            return self.lock_acquire(entry, token, ttl).run() is not None

        return Do(work)


class FencesStandStill(MemoryBackend):
    def lock_acquire(self, entry: Entry, token: bytes, ttl: int) -> Action[int | None]:
        return Do(lambda: None if super(FencesStandStill, self).lock_acquire(entry, token, ttl).run() is None else 7)


class SlidesTheWindow(MemoryBackend):
    """Let a repeat begin the window anew."""

    def dedup_seen(self, entry: Entry, ttl: int) -> Action[bool]:
        def work() -> bool:
            seen = super(SlidesTheWindow, self).dedup_seen(entry, ttl).run()
            row = self.memory.dedup.get(entry.digest)
            if seen and row is not None and row.token is None:
                self.memory.dedup.remove(row)
                super(SlidesTheWindow, self).dedup_seen(entry, ttl).run()
            return seen

        return Do(work)


class ClaimsForEver(MemoryBackend):
    """Let a claim whose owner died stay pending for the whole window."""

    def dedup_claim(self, entry: Entry, token: bytes, ttl: int, lease: int) -> Action[ClaimState | None]:
        return super().dedup_claim(entry, token, ttl, max(ttl, lease))


# -- queue ------------------------------------------------------------------------------------------------------------


class LastInFirstOut(MemoryBackend):
    def queue_dequeue(self, entry: Entry) -> Action[str | None]:
        def work() -> str | None:
            payloads: list[str] = []
            while (payload := super(LastInFirstOut, self).queue_dequeue(entry).run()) is not None:
                payloads.append(payload)
            for payload in payloads[:-1]:
                self.queue_enqueue(entry, payload, None, True, None).run()
            return payloads[-1] if payloads else None

        return Do(work)


class EvictsOne(MemoryBackend):
    """Drop one item where several must go."""

    def queue_enqueue(
        self, entry: Entry, payload: str, max_size: int | None, drop_oldest: bool, ttl: int | None
    ) -> Action[Enqueued]:
        def work() -> Enqueued:
            depth = self.queue_depth(entry).run()
            most = max(max_size, depth) if max_size is not None and drop_oldest else max_size
            return super(EvictsOne, self).queue_enqueue(entry, payload, most, drop_oldest, ttl).run()

        return Do(work)


class LosesTakenItems(MemoryBackend):
    """Remove an item as soon as it is taken: what its taker loses is gone."""

    def queue_take(self, entry: Entry, token: bytes, lease: int) -> Action[Taken | None]:
        return super().queue_take(entry, token, 10**10)


class AcksForAnybody(MemoryBackend):
    """Say that an item was acknowledged, whoever has it by now."""

    def queue_ack(self, entry: Entry, token: bytes) -> Action[bool]:
        return Do(lambda: super(AcksForAnybody, self).queue_ack(entry, token).run() or True)


# -- handoff and spool ------------------------------------------------------------------------------------------------


class HandsOverTwice(MemoryBackend):
    def handoff_take(self, entry: Entry) -> Action[str | None]:
        return self.handoff_get(entry)


class FollowsTheEntry(MemoryBackend):
    """Let a reader look at what the entry holds now."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: dict[int, int] = {}
        self.of_entry: dict[bytes, list[int]] = {}

    def spool_store(
        self, entry: Entry, version: str, shape: Shape, chunks: Sequence[Chunk], use: Use | None
    ) -> Action[Blob]:
        def work() -> Blob:
            blob = super(FollowsTheEntry, self).spool_store(entry, version, shape, chunks, use).run()
            self.of_entry.setdefault(entry.digest, []).append(blob.id)
            self.newest.update(dict.fromkeys(self.of_entry[entry.digest], blob.id))
            return blob

        return Do(work)

    def spool_chunks(self, blob: int, first: int, last: int) -> Action[list[Chunk]]:
        return super().spool_chunks(self.newest.get(blob, blob), first, last)


class LosesTheLastChunk(MemoryBackend):
    """Keep the chunks of a long body but the one that its end brings."""

    def spool_finish(
        self, entry: Entry, blob: int, shape: Shape, chunks: Sequence[Chunk], use: Use | None
    ) -> Action[bool]:
        return super().spool_finish(entry, blob, shape, chunks[:-1], use)


class ShowsHalfAnUpload(MemoryBackend):
    """Make an entry of the first piece, and keep it when the source fails."""

    def spool_begin(self, entry: Entry, version: str, chunks: Sequence[Chunk], lease: int) -> Action[int]:
        def work() -> int:
            lines = sum(chunk.data.count(b"\n") for chunk in chunks) + 1
            shape = Shape(sum(len(chunk.data) for chunk in chunks), lines, len(chunks), self.spool_chunk_size)
            super(ShowsHalfAnUpload, self).spool_store(entry, f"{version[:-1]}x", shape, chunks, None).run()
            return super(ShowsHalfAnUpload, self).spool_begin(entry, version, chunks, lease).run()

        return Do(work)


# -- durable ----------------------------------------------------------------------------------------------------------


class CommitsForAnybody(MemoryBackend):
    """Write whatever comes, whoever holds the lease."""

    def durable_commit(self, entry: Entry, token: bytes, checkpoint: Checkpoint, payload: str) -> Action[bool]:
        def work() -> bool:
            task = self.memory.tasks.of(entry)
            holder = task.worker if task is not None else None
            if task is not None and holder:
                token_now = bytes.fromhex(holder)
                return super(CommitsForAnybody, self).durable_commit(entry, token_now, checkpoint, payload).run()
            return super(CommitsForAnybody, self).durable_save(entry, checkpoint, payload).run()

        return Do(work)


class TaskFencesStandStill(MemoryBackend):
    def durable_claim(self, entry: Entry, token: bytes, lease: int) -> Action[int | None]:
        return Do(
            lambda: None if super(TaskFencesStandStill, self).durable_claim(entry, token, lease).run() is None else 7
        )


class ForgetsTheBudget(MemoryBackend):
    def durable_load(self, entry: Entry) -> Action[tuple[Checkpoint, str] | None]:
        def work() -> tuple[Checkpoint, str] | None:
            loaded = super(ForgetsTheBudget, self).durable_load(entry).run()
            return loaded and (replace(loaded[0], model_budget=None), loaded[1])

        return Do(work)


# -- differences ------------------------------------------------------------------------------------------------------


class SaysItJoins(MemoryBackend):
    joins_transactions = True


class SaysItLasts(MemoryBackend):
    outlives_process = True


class Shares(MemoryBackend):
    """Outlive the object, and not say so."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = _SHARED.memory


_SHARED = MemoryBackend()
