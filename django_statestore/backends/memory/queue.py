"""queue in memory."""

from __future__ import annotations

from ...contracts.queue import Enqueued, QueuePrimitives, Taken
from ...keys import Entry
from .clock import after, maybe_after
from .primitives import MemoryPrimitives, reads, writes
from .sequences import QueueRow
from .shelf import named


class QueueOperations(MemoryPrimitives, QueuePrimitives):
    """Fill in the primitives of queue."""

    @writes
    def queue_enqueue(
        self, now: int, entry: Entry, payload: str, max_size: int | None, drop_oldest: bool, ttl: int | None
    ) -> Enqueued:
        queue = self._found(now, entry) or QueueRow(*named(entry), None)
        if max_size is not None and len(queue) >= max_size:
            if not drop_oldest:
                return Enqueued(False, len(queue))
            while len(queue) >= max_size:
                queue.drop_oldest()
        queue.add(payload, maybe_after(now, ttl))
        self.memory.queues.put(queue)
        return Enqueued(True, len(queue))

    @writes
    def queue_dequeue(self, now: int, entry: Entry) -> str | None:
        queue = self._found(now, entry)
        if queue is None:
            return None
        payload = queue.dequeue()
        self.memory.queues.put(queue)
        return payload

    @reads
    def queue_peek(self, now: int, entry: Entry) -> str | None:
        queue = self._found(now, entry)
        return None if queue is None else queue.peek()

    @reads
    def queue_depth(self, now: int, entry: Entry) -> int:
        queue = self._found(now, entry)
        return 0 if queue is None else len(queue)

    @writes
    def queue_delete(self, now: int, entry: Entry) -> bool:
        queue = self._found(now, entry)
        if queue is not None:
            self.memory.queues.remove(queue)
        return queue is not None

    @writes
    def queue_take(self, now: int, entry: Entry, token: bytes, lease: int) -> Taken | None:
        queue = self._found(now, entry)
        item = None if queue is None else queue.take(token, after(now, lease))
        return None if item is None else Taken(item.payload, item.deliveries)

    @writes
    def queue_ack(self, now: int, entry: Entry, token: bytes) -> bool:
        queue = self._found(now, entry)
        if queue is None or not queue.ack(token):
            return False
        self.memory.queues.put(queue)
        return True

    @writes
    def queue_release(self, now: int, entry: Entry, token: bytes, delay: int) -> bool:
        queue = self._found(now, entry)
        return queue is not None and queue.release(token, after(now, delay))

    @writes
    def queue_purge(self, now: int, limit: int) -> int:
        return self.memory.queues.purge(now, limit)

    def _found(self, now: int, entry: Entry) -> QueueRow | None:
        """Return the queue as it is now; None: it has no items."""
        return self.memory.queues.live(entry.digest, now)
