"""queue on a database: the primitives over the statements of ``queue_sql``."""

from __future__ import annotations

from ...contracts.queue import Enqueued, QueuePrimitives, Taken
from ...keys import Entry
from . import queue_sql as sql
from .connection import Parameters, Row
from .primitives import DatabasePrimitives, identity, reads, writes

_NO_LIMIT = 2**53


class QueueStatements(DatabasePrimitives, QueuePrimitives):
    """Fill in the primitives of queue."""

    @writes
    def queue_enqueue(
        self, entry: Entry, payload: str, max_size: int | None, drop_oldest: bool, ttl: int | None
    ) -> Enqueued:
        limit = _NO_LIMIT if max_size is None else max_size
        with self.database.transaction():
            if self.database.dialect.chains:
                queue, seq = self.rows(sql.DEAL, identity(entry))[0]
                item = {"queue": queue, "seq": seq, "value": payload, "ttl": ttl}
                row = self.rows(sql.FILL, item | {"max_size": limit, "drop_oldest": drop_oldest})[0]
                return Enqueued(bool(row[1]), int(row[0]))
            return self._enqueue(entry, payload, limit, drop_oldest, ttl)

    def _enqueue(self, entry: Entry, payload: str, limit: int, drop_oldest: bool, ttl: int | None) -> Enqueued:
        queue, seq, stored, dead, instant = self.rows(sql.DEAL_AND_COUNT, identity(entry))[0]
        over = max(0, stored - limit)
        accepted = drop_oldest or not over
        evicted = over if accepted else 0
        if dead or evicted:
            self.rows(sql.MAKE_ROOM, {"queue": queue, "instant": instant, "count": evicted})
        if accepted:
            self.rows(sql.ADD, {"queue": queue, "seq": seq, "value": payload, "ttl": ttl})
        if over:
            stored -= evicted if accepted else 1
            self.rows(sql.COUNT, {"queue": queue, "stored": stored})
        return Enqueued(accepted, stored)

    @writes
    def queue_dequeue(self, entry: Entry) -> str | None:
        with self.database.transaction():
            if self.database.dialect.chains:
                row = self._locked(entry, sql.DEQUEUE_LOCKED, {})
                return row[0] if row else None
            row = self.row(sql.DEQUEUE, {"id": entry.digest})
            if row is None:
                return None
            self.rows(sql.LESS, {"queue": row[0], "count": 1})
            return str(row[1])

    @reads
    def queue_peek(self, entry: Entry) -> str | None:
        row = self.row(sql.PEEK, {"id": entry.digest})
        return row[0] if row else None

    @reads
    def queue_depth(self, entry: Entry) -> int:
        row = self.row(sql.DEPTH, {"id": entry.digest})
        return int(row[0]) if row else 0

    @writes
    def queue_delete(self, entry: Entry) -> bool:
        with self.database.transaction():
            if self.database.dialect.chains:
                self.row(sql.LOCK, {"id": entry.digest})  # what the deletion counts is then what is there
            row = self.row(sql.DELETE_HEAD, {"id": entry.digest})
            if row:
                self.rows(sql.ITEMS_OF, {"queue": row[0]})
        return bool(row and row[1])

    @writes
    def queue_take(self, entry: Entry, token: bytes, lease: int) -> Taken | None:
        parameters = {"token": token, "lease": lease}
        if self.database.dialect.chains:
            with self.database.transaction():
                row = self._locked(entry, sql.TAKE_LOCKED, parameters)
        else:
            row = self.row(sql.TAKE, parameters | {"id": entry.digest})
        return Taken(row[0], int(row[1])) if row else None

    @writes
    def queue_ack(self, entry: Entry, token: bytes) -> bool:
        parameters = {"id": entry.digest, "token": token}
        with self.database.transaction():
            if self.database.dialect.chains:
                return self._locked(entry, sql.ACK_LOCKED, parameters) is not None
            row = self.row(sql.ACK, parameters)
            if row:
                self.rows(sql.LESS, {"queue": row[0], "count": 1})
        return row is not None

    @writes
    def queue_release(self, entry: Entry, token: bytes, delay: int) -> bool:
        parameters = {"id": entry.digest, "token": token, "delay": delay}
        if not self.database.dialect.chains:
            return self.touched(sql.RELEASE, parameters)
        with self.database.transaction():
            return self._locked(entry, sql.RELEASE, parameters) is not None

    def _locked(self, entry: Entry, template: str, parameters: Parameters) -> Row | None:
        """Lock the head and then send the statement, which so sees all that was committed before."""
        head = self.row(sql.LOCK, {"id": entry.digest})
        return self.row(template, {**parameters, "queue": head[0]}) if head else None

    @writes
    def queue_purge(self, limit: int) -> int:
        """Remove expired items, so many of a queue at once, then heads of empty queues; return the count of both."""
        gone = 0
        for (queue,) in self.rows(sql.WITH_DEAD, {"limit": limit}):
            with self.database.transaction():
                self.rows(sql.HOLD, {"queue": queue})
                dead = len(self.rows(sql.BURY, {"queue": queue, "limit": limit}))
                self.rows(sql.LESS, {"queue": queue, "count": dead})
            gone += dead
        return gone + len(self.rows(sql.EMPTY, {"limit": limit}))
