"""Requests to a durable task: stored in its mailbox, applied to its row.

Inside a caller's open transaction only the mailbox row is written: a slow request would else hold the task's row and
block its worker. It is applied when that transaction has committed, or by the sweep.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from ... import codec
from ...contracts.mailbox import Limits, Reply, Request
from ...keys import Entry
from . import request_sql as sql
from .journal import JournalStatements
from .primitives import writes


class RequestStatements(JournalStatements):
    """Fill in requests."""

    @writes
    def task_request(self, entry: Entry, request: Request) -> Reply:
        if request.kind == "grant":
            request = replace(request, payload=codec.dumps(asdict(request.limits)))
        elif request.kind == "cancel":
            request = replace(request, payload=codec.dumps(request.name))
        # A row of ours that a caller's transaction holds would keep its worker from renewing: only the mailbox then.
        if self.database.in_transaction and not self.database.in_test_case:
            stored = self._store(entry, request)
            return stored if isinstance(stored, Reply) else Reply("stored", stored[1])
        if self.database.dialect.chains and request.kind == "signal" and request.key is None:
            row = self.row(sql.SIGNAL_CHAINED, _stored(entry, request))
            return Reply("applied", int(row[0]), woken=bool(row[1])) if row else Reply("refused")
        with self.database.transaction():
            stored = self._store(entry, request)
            if isinstance(stored, Reply):
                return stored
            mail, task = stored
            woken = self._apply(task, mail, request)
            if woken is None:  # it has ended since this began
                self.rows(sql.TAKE_BACK, {"mail": mail})
                return Reply("refused")
        return Reply("applied", task, woken=woken)

    @writes
    def task_apply_requests(self, entry: Entry, notify: int | None) -> Reply:
        with self.database.transaction():
            # The hot row first: whoever applies beside this waits here, and then finds nothing pending.
            row = self.row(sql.LOCK, {"id": entry.digest})
            if row is None:
                return Reply("refused")
            task, woken = int(row[0]), False
            for mail, kind, name, payload, sender in self.rows(sql.PENDING, {"task": task}):
                limits = Limits(**codec.loads(payload)) if kind == "grant" else Limits()
                request = Request(kind, name, payload, sender=sender, limits=limits, notify=notify)
                applied = self._apply(task, mail, request)
                if applied is None:
                    self.rows(sql.DROPPED, {"mail": mail, "dropped": True})
                woken = woken or bool(applied)
        return Reply("applied", task, woken=woken)

    def _store(self, entry: Entry, request: Request) -> tuple[int, int] | Reply:
        """Store the request, not yet applied; return its id and its task's, or the answer that says why not."""
        row = self.row(sql.STORE, _stored(entry, request))
        if row is not None:
            return int(row[0]), int(row[1])
        found = self.row(sql.FIND, {"id": entry.digest})
        return Reply("known", int(found[0])) if found else Reply("refused")

    def _apply(self, task: int, mail: int, request: Request) -> bool | None:
        """Apply a stored request to the row and return whether that made it due; None: the task has ended."""
        parameters: dict[str, Any] = {"task": task, "name": request.name, "notify": request.notify}
        if request.kind == "signal":
            row = self.row(sql.SIGNAL, parameters)
        elif request.kind == "cancel":
            row = self.row(sql.CANCEL, parameters)
        else:
            row = self.row(sql.GRANT, parameters | asdict(request.limits))
        if row is None:
            return None
        seq, save_seq, number, woken = row
        self.rows(sql.APPLIED, {"mail": mail, "seq": seq})
        if request.kind == "signal":
            return bool(woken)
        self.record_repair(task, number, save_seq, request.kind, request.payload, request.sender)
        return bool(woken) if request.kind == "cancel" else self._granted(task, request.notify, parked=bool(woken))

    def _granted(self, task: int, notify: int | None, *, parked: bool) -> bool:
        parameters = {"task": task, "notify": notify}
        if not parked:
            self.rows(sql.AFTER_GRANT, parameters)
            return False
        row = self.row(sql.REVIVE, parameters)
        return row is not None and bool(row[0])


def _stored(entry: Entry, request: Request) -> dict[str, Any]:
    return {
        "id": entry.digest,
        "kind": request.kind,
        "name": request.name,
        "key": request.key,
        "payload": request.payload,
        "sender": request.sender,
        "notify": request.notify,
        "dropped": False,
    }
