"""The durable contract for foreign engines in memory, on the same rows as the engine's own tasks.

A lease taken through the contract names the digest of its token as the row's worker.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.checkpoint import Checkpoint
from ...contracts.durable import DurablePrimitives
from ...contracts.taskrecord import FINISHED
from ...keys import Entry
from .clock import after
from .parts import Saved
from .primitives import MemoryPrimitives, reads, writes
from .taskrows import TaskRow

_ONE_WRITE = 1000
"""Milliseconds of the lease of a save that is made without one."""


class DurableOperations(MemoryPrimitives, DurablePrimitives):
    """Fill in the primitives of durable."""

    @reads
    def durable_load(self, now: int, entry: Entry) -> tuple[Checkpoint, str] | None:
        task = self.memory.tasks.of(entry)
        record = None if task is None else task.record(now)
        if record is None or record.state is None or record.deadline is None:
            return None
        return record.checkpoint(None), record.state

    @writes
    def durable_claim(self, now: int, entry: Entry, token: bytes, lease: int) -> int | None:
        task = self._lease(now, entry, token, lease)
        return None if task is None else task.fence

    @writes
    def durable_commit(self, now: int, entry: Entry, token: bytes, checkpoint: Checkpoint, payload: str) -> bool:
        task = self._leased(entry, token)
        if task is not None:
            self._write(now, task, checkpoint, payload)
        return task is not None

    @writes
    def durable_save(self, now: int, entry: Entry, checkpoint: Checkpoint, payload: str) -> bool:
        task = self._lease(now, entry, entry.digest, _ONE_WRITE)  # a token that nobody has
        if task is None:
            return False
        self._write(now, task, checkpoint, payload)
        self._release(now, task)
        return True

    @writes
    def durable_renew(self, now: int, held: Sequence[tuple[Entry, bytes, int]]) -> list[bool]:
        return [self._prolong(now, *lease) for lease in held]

    @writes
    def durable_release(self, now: int, entry: Entry, token: bytes) -> bool:
        task = self._leased(entry, token)
        if task is not None:
            self._release(now, task)
        return task is not None

    def _leased(self, entry: Entry, token: bytes) -> TaskRow | None:
        """Return the task that ``token`` took and nobody after it, whether or not the lease is over."""
        task = self.memory.tasks.of(entry)
        return task if task is not None and task.worker == _holder(token) else None

    def _lease(self, now: int, entry: Entry, token: bytes, lease: int) -> TaskRow | None:
        tasks, holder = self.memory.tasks, _holder(token)
        task = tasks.of(entry)
        if task is None:
            task = tasks.new(entry, now, driven=False)  # an id may be locked before it is ever saved
        living = task.held(now)
        if living and task.worker != holder:
            return None
        if not living:
            task.raise_fence(now)
        task.worker, task.wake_at, task.notified_until = holder, after(now, lease), None
        tasks.put(task)
        return task

    def _prolong(self, now: int, entry: Entry, token: bytes, lease: int) -> bool:
        task = self._leased(entry, token)
        if task is not None:
            task.wake_at, task.notified_until = after(now, lease), None
            self.memory.tasks.put(task)
        return task is not None

    def _write(self, now: int, task: TaskRow, checkpoint: Checkpoint, payload: str) -> None:
        budget = checkpoint.model_budget
        stays = task.status == checkpoint.status == "ready" and task.step_index == checkpoint.next_step_index
        if task.waiting_for and not stays:  # a wait of the engine's is over where the save leaves its step
            task.stop_waiting()
        if task.step_index != checkpoint.next_step_index:
            task.turn, task.received = 1, None
        task.definition, task.revision = str.__str__(checkpoint.definition_id), str.__str__(checkpoint.revision)
        task.status, task.step_index = checkpoint.status, checkpoint.next_step_index
        task.attempts, task.max_attempts = checkpoint.attempt_count, checkpoint.max_attempts
        task.deadline = after(0, checkpoint.deadline_at_ms)
        task.max_calls = budget.max_calls if budget else None
        task.reserved_calls = budget.reserved_calls if budget else 0
        task.max_calls_per_attempt = budget.max_calls_per_attempt if budget else None
        task.save_seq += 1
        if checkpoint.status not in FINISHED:
            task.finished_at = None
        elif task.finished_at is None:
            task.finished_at = now
        saved = Saved(
            task.save_seq,
            checkpoint.next_step_index,
            "",
            task.turn,
            checkpoint.attempt_count,
            "saved",
            payload,
            "",
            None,
            now,
        )
        task.keep(saved)
        self.memory.tasks.put(task)

    def _release(self, now: int, task: TaskRow) -> None:
        """Let go; a task of the engine is then as due, or as parked, as it was."""
        task.worker = ""
        task.raise_fence(now)
        if not task.driven:
            task.wake_at = now
        else:
            task.wake_at = task.rests_until(now) if task.open else None
        self.memory.tasks.put(task)


def _holder(token: bytes) -> str:
    return f"token:{token.hex()}"
