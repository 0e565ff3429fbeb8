"""queue on a database: the primitives over the statements of ``queue_sql``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from django.db import Error

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
        with self.database.transaction():
            if self.database.dialect.chains:
                row = self._fill(entry, {"value": payload, "ttl": ttl}, max_size, drop_oldest)
                return Enqueued(bool(row[1]), int(row[0]))
            limit = _NO_LIMIT if max_size is None else max_size
            return self._enqueue(entry, payload, limit, drop_oldest, ttl)

    def _fill(self, entry: Entry, item: Parameters, max_size: int | None, drop_oldest: bool) -> Row:
        if max_size is None:
            queue, seq = self.rows(sql.DEAL, identity(entry))[0]
            return self.rows(sql.FILL, {**item, "queue": queue, "seq": seq})[0]
        queue, seq, dusty = self.rows(sql.DEAL_AND_LOOK, identity(entry))[0]
        bounds = {"max_size": max_size, "drop_oldest": drop_oldest}
        fill = sql.FILL_WITHIN_DUSTY if dusty else sql.FILL_WITHIN
        return self.rows(fill, {**item, **bounds, "queue": queue, "seq": seq})[0]

    def _enqueue(self, entry: Entry, payload: str, limit: int, drop_oldest: bool, ttl: int | None) -> Enqueued:
        queue, seq, stored, peak, instant, dead = self.rows(sql.DEAL_AND_COUNT, identity(entry) | {"ttl": ttl})[0]
        item = {"queue": queue, "seq": seq, "value": payload, "ttl": ttl, "peak": peak, "instant": instant}
        over = max(0, stored - limit)
        accepted = drop_oldest or not over
        evicted = over if accepted else 0
        if dead or evicted:
            make_room = sql.BURY_AND_EVICT if dead else sql.EVICT
            self.rows(make_room, {"queue": queue, "instant": instant, "count": evicted})
        if accepted:
            self.rows(sql.ADD, item)
        if over:
            stored -= evicted if accepted else 1
            self.rows(sql.COUNT, {"queue": queue, "stored": stored})
        return Enqueued(accepted, stored)

    @writes
    def queue_dequeue(self, entry: Entry) -> str | None:
        with self.database.transaction():
            if self.database.dialect.chains:
                row = self._locked(entry, sql.DEQUEUE_LOCKED, sql.DEQUEUE_DUSTY, {})
                return row[0] if row else None
            rows = self.rows(sql.DEQUEUE, {"id": entry.digest})
            self._count_off(rows)
        return next((row[1] for row in rows if row[1] is not None), None)

    def _count_off(self, rows: Sequence[Row]) -> None:
        """Take rows that are gone, of one queue, off its count where they were in it."""
        count = sum(bool(row[-1]) for row in rows)
        if count:
            self.rows(sql.LESS, {"queue": rows[0][0], "count": count})

    @reads
    def queue_peek(self, entry: Entry) -> str | None:
        named = {"id": entry.digest}
        if self.database.dialect.chains:
            dusty, value = self.row(sql.PEEK_PLAINLY, named) or (False, None)
            if not dusty:
                return None if value is None else str(value)
        row = self.row(sql.PEEK, named)
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
                row = self._locked(entry, sql.TAKE_LOCKED, sql.TAKE_DUSTY, parameters)
        else:
            row = self.row(sql.TAKE, parameters | {"id": entry.digest})
            if row and row[2]:
                with suppress(Error):  # it changes nothing that anybody sees, and the item is taken: do not try again
                    self.rows(sql.FREE, {"id": entry.digest})
        return Taken(row[0], int(row[1])) if row else None

    @writes
    def queue_ack(self, entry: Entry, token: bytes) -> bool:
        parameters = {"id": entry.digest, "token": token}
        with self.database.transaction():
            if self.database.dialect.chains:
                return self._locked(entry, sql.ACK_LOCKED, sql.ACK_DUSTY, parameters) is not None
            rows = self.rows(sql.ACK, parameters)
            self._count_off(rows)
        return any(row[1] for row in rows)

    @writes
    def queue_release(self, entry: Entry, token: bytes, delay: int) -> bool:
        parameters = {"id": entry.digest, "token": token, "delay": delay}
        if not self.database.dialect.chains:
            return self.touched(sql.RELEASE, parameters)
        with self.database.transaction():
            return self._locked(entry, sql.RELEASE, sql.RELEASE, parameters) is not None

    def _locked(self, entry: Entry, plain: str, dusty: str, parameters: Parameters) -> Row | None:
        """Lock the head and then send a statement, which so sees all that was committed before."""
        head: Row | None = (None,)
        while head and head[0] is None:  # it went while this waited
            head = self.row(sql.LOCK, {"id": entry.digest})
        return self.row(dusty if head[1] else plain, {**parameters, "queue": head[0]}) if head else None

    @writes
    def queue_purge(self, limit: int) -> int:
        """Remove expired items, so many in all, then heads of empty queues; return the count of both."""
        gone = 0
        for (queue,) in self.rows(sql.WITH_DEAD, {"limit": limit}):
            if gone >= limit:
                return gone
            with self.database.transaction():
                self.rows(sql.HOLD, {"queue": queue})
                dead = self.rows(sql.BURY, {"queue": queue, "limit": limit - gone})
                self._count_off([(queue, *row) for row in dead])
            gone += len(dead)
        return gone + len(self.rows(sql.EMPTY, {"limit": limit}))
