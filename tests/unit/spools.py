"""What the tests of spool share: how rows are looked at, and threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import connections

from django_statestore.keys import encode_namespace
from django_statestore.models import SpoolBlob
from django_statestore.store import Store

HOUR = 3_600_000


def states(store: Store) -> dict[str, int]:
    """Count the blobs of a store's namespace by their state."""
    rows = SpoolBlob.objects.using(store.alias).filter(namespace=encode_namespace(store.names))
    return dict(Counter(_state(*row) for row in rows.values_list("lease_until", "dropped_at")))


def _state(lease_until: object, dropped_at: object) -> str:
    if lease_until is None:
        return "live" if dropped_at is None else "dropped"
    return "writing" if dropped_at is None else "condemned"


def age(store: Store, column: str, milliseconds: int) -> None:
    """Let an instant of every blob of the namespace lie that much earlier; what is NULL stays so."""
    past = "%s" if connections[store.alias].vendor == "sqlite" else "%s * interval '1 millisecond'"
    with connections[store.alias].cursor() as cursor:
        cursor.execute(
            f"update statestore_spool_blob set {column} = {column} - {past} where namespace = %s",
            [milliseconds, encode_namespace(store.names)],
        )


@contextmanager
def chunks_of(store: Store, size: int) -> Iterator[None]:
    """Cut what is written meanwhile into chunks of that many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.backend, "spool_chunk_size", size)
        yield


def at_once(*functions: Callable[[], object]) -> None:
    """Run each function in a thread of its own, begun at the same moment, and raise what one of them raised."""
    barrier, errors = threading.Barrier(len(functions)), list[BaseException]()

    def work(function: Callable[[], object]) -> None:
        try:
            barrier.wait(20)
            function()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
