"""A batch of a purge costs what the batch holds, however much there is to be purged, and whatever lives beside it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections
from django.db.models import Model

from django_statestore import Store
from django_statestore.models import (
    DedupEntry,
    KVEntry,
    ListHead,
    ListItem,
    SpoolBlob,
    SpoolChunk,
)
from tests.database.plans import watched

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
FAR = datetime(2100, 1, 1, tzinfo=UTC)
BATCH = 20

Rows = Callable[[int, datetime], Any]


def named() -> dict[str, Any]:
    key = secrets.token_hex(8)
    return {"id": secrets.token_bytes(32), "namespace": "many", "key": key}


def entries(model: type[Model], **values: Any) -> Rows:
    def rows(count: int, end: datetime) -> list[Model]:
        return [model(**named(), expires_at=end, **values) for _ in range(count)]

    return rows


# One template serves lock and handoff too.
ENTRIES: dict[str, Rows] = {
    "kv": entries(KVEntry, value="1"),
    "dedup": entries(DedupEntry),
}


def save(store: Store, rows: list[Any]) -> None:
    if rows:
        type(rows[0]).objects.using(store.alias).bulk_create(rows, batch_size=500)


def fill_list(store: Store, count: int, end: datetime) -> None:
    heads = [
        ListHead(digest=secrets.token_bytes(32), namespace="many", key=str(n), seq=1, expires_at=end)
        for n in range(count)
    ]
    save(store, heads)
    save(store, [ListItem(list_id=head.pk, seq=1, value="1") for head in heads])


def fill_spool(store: Store, count: int, dropped_at: datetime | None, lease_until: datetime | None) -> None:
    blobs = [
        SpoolBlob(
            version=secrets.token_hex(16), namespace="many", call_id="c", byte_length=1, line_count=1, chunk_count=1,
            chunk_size=65_536, dropped_at=dropped_at, lease_until=lease_until, created_at=LONG_AGO,
        )
        for _ in range(count)
    ]  # fmt: skip
    save(store, blobs)
    save(store, [SpoolChunk(blob_id=blob.pk, number=0, lines_before=0, data=b"x") for blob in blobs])


def fill(store: Store, kind: str, count: int, *, over: bool) -> None:
    end = LONG_AGO if over else FAR
    if kind in ENTRIES:
        save(store, ENTRIES[kind](count, end))
    elif kind == "list":
        fill_list(store, count, end)
    elif kind == "spool":
        fill_spool(store, count, LONG_AGO if over else None, None)
    else:
        fill_spool(store, count, None, end)


def purge(store: Store, kind: str) -> int:
    backend: Any = store.backend
    actions = {
        "list": lambda: backend.list_purge(BATCH),
        "spool": lambda: backend.spool_purge_dropped(1000, BATCH),
        "spool uploads": lambda: backend.spool_purge_writing(BATCH),
    }
    action = actions.get(kind, lambda: backend.entries_purge(kind, BATCH))()
    return int(action.run())


def cost(store: Store, kind: str) -> int:
    with connections[store.alias].cursor() as cursor:
        cursor.execute("analyze")
    # A prepared statement is planned without its parameters in sight; what is seen with them only differs for the best.
    with watched(store, "force_generic_plan") as work:
        assert purge(store, kind) == BATCH
    touched: int = work.touched
    assert touched
    return touched


@pytest.mark.parametrize("kind", [*ENTRIES, "list", "spool", "spool uploads"])
def test_a_batch_costs_what_it_holds(store: Store, kind: str) -> None:
    purged = purge(store, kind)
    assert purged == 0
    fill(store, kind, 200, over=True)
    few = cost(store, kind)
    fill(store, kind, 4000, over=True)
    fill(store, kind, 500, over=False)
    many = cost(store, kind)
    assert many < few * 1.5, f"{few} rows or instructions, and then {many}"
