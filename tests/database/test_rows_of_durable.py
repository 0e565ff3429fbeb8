"""durable on a database: its rows, its purge, and an entry that is cancelled on its way."""

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_statestore import Store, flow
from django_statestore.exceptions import (
    TransactionRefused,
)
from django_statestore.models import Task
from django_statestore.services.purge import purge
from django_statestore.testing import age
from django_statestore.testing.conformance.durable import checkpoint
from tests.calling import Call


def test_a_cancelled_entry_leaves_nothing_held(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    load, claimed = store.backend.durable_load, threading.Event()  # type: ignore[attr-defined]

    def slow_load(entry: object) -> Any:
        claimed.set()
        return flow.Call(lambda: (threading.Event().wait(0.3), load(entry).run())[1])

    async def enter() -> None:
        async with store.durable.exclusive("t"):
            raise AssertionError

    async def cancel() -> None:
        task = asyncio.create_task(enter())
        while not claimed.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with monkeypatch.context() as patch:
        patch.setattr(store.backend, "durable_load", slow_load)
        async_to_sync(cancel)()
    with store.durable.exclusive("t", wait=0):
        pass


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_it_is_refused_inside_an_open_transaction(store: Store, call: Call) -> None:
    with transaction.atomic(using=store.alias):
        for attempt in (
            lambda: call(store.durable.save, "t", checkpoint()),
            lambda: call(store.durable.claim, "t"),
            lambda: call(store.durable.commit, "t", "token", checkpoint()),
            lambda: store.durable.exclusive("t").__enter__(),
        ):
            with pytest.raises(TransactionRefused):
                attempt()
    assert call(store.durable.load, "t") is None


def test_an_id_that_was_locked_and_never_saved_is_purged_a_day_later(store: Store, alias: str) -> None:
    with store.durable.exclusive("locked"):
        pass
    store.durable.save("saved", checkpoint())
    age(store, 86_400 - 60)
    purge(alias)
    rows = Task.objects.using(alias).filter(namespace=store.names[0])
    assert rows.count() == 2
    age(store, 120)
    purge(alias)
    assert [row.key for row in rows.all()] == ["saved"]


def test_tokens_are_kept_as_digests(store: Store, alias: str) -> None:
    claim = store.durable.claim("t")
    assert claim is not None
    row = Task.objects.using(alias).get(namespace=store.names[0])
    assert claim.token not in repr(claim)
    assert claim.token not in "".join(str(value) for value in vars(row).values())
    assert datetime.now(UTC) > row.created_at
