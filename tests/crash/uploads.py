"""Uploads that are killed, that are slow, and that pause for too long. Run in a child."""

from collections.abc import Iterator
from typing import Any, cast

from django_statestore import Store, conf, stores
from django_statestore.exceptions import UploadLapsed
from django_statestore.models import SpoolBlob, SpoolChunk
from django_statestore.testing import age
from tests import child
from tests.crash.forks import configure
from tests.crash.maintenance import kill_each

PIECE = b"0123456789abcde\n" * 7  # as much as is written in one step, where chunks have seven bytes
PIECES = 4
OLD, NEW = b"old", PIECE * PIECES + b"the end"
SHORTER = PIECE * 2 + b"the end"
"""It is begun, goes on and is finished, each in a transaction of its own."""


def small_chunks(alias: str) -> None:
    cast(Any, stores[alias].backend).spool_chunk_size = 7


def purge_uploads(store: Store) -> int:
    return int(cast(Any, store.backend).spool_purge_writing(100).run())


def body(store: Store) -> bytes:
    reader = store.spool.read("c")
    assert reader is not None
    return reader.read_bytes()


def uploads_killed(alias: str) -> list[str]:
    """Kill an upload: the entry is the old one until it is the new one, and what was begun is purged in time."""
    configure()
    small_chunks(alias)

    def prepare(namespace: str) -> None:
        stores[alias].namespace(namespace).spool.write("c", OLD)

    def work(namespace: str) -> None:
        stores[alias].namespace(namespace).spool.write(
            "c", (SHORTER[at : at + 50] for at in range(0, len(SHORTER), 50))
        )

    def check(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        blobs = SpoolBlob.objects.using(alias).filter(namespace=namespace)
        writing = blobs.exclude(lease_until=None).count()
        shown = body(store)
        assert (shown, writing) in [(OLD, 0), (OLD, 1), (SHORTER, 0)]
        assert purge_uploads(store) == 0, "an upload was taken while its lease ran"
        assert body(store) == shown
        age(store, conf.get().spool_lease / 1000 + 1)
        assert purge_uploads(store) == writing
        assert body(store) == shown
        assert not blobs.exclude(lease_until=None).exists()
        of_blobs = SpoolBlob.objects.using(alias).values("pk")
        assert not SpoolChunk.objects.using(alias).exclude(blob__in=of_blobs).exists(), "chunks without their blob"
        assert store.spool.write("c", "again").read_bytes() == body(store) == b"again"

    return kill_each(prepare, work, check)


def upload_and_wait(alias: str, namespace: str) -> tuple[bytes, str]:
    """Upload twice, waiting for the parent after each piece; return what the first wrote and how the second failed."""
    configure()
    small_chunks(alias)
    store = stores[alias].namespace(namespace)

    def source() -> Iterator[bytes]:
        for _ in range(PIECES):
            yield PIECE
            child.tell("one piece is written")
            child.wait()
        yield b"the end"

    written = store.spool.write("c", source()).read_bytes()
    try:
        store.spool.write("c", source())
    except UploadLapsed as error:
        return written, str(error)
    return written, ""
