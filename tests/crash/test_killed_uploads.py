"""An upload that is killed half-way leaves the old entry and is purged later; a slow one is not."""

import uuid

from django_statestore import conf, stores
from django_statestore.models import SpoolBlob
from django_statestore.testing import age
from tests.crash import uploads
from tests.processes import Processes


def test_a_killed_upload(processes: Processes, alias: str) -> None:
    points = processes.start(uploads.uploads_killed, alias).result()
    assert len([point for point in points if "insert into statestore_spool_chunk" in point]) == 2 * (16 + 16 + 1)
    print(f"{alias}: killed at {len(points)} points")  # noqa: T201


def test_a_slow_upload_is_not_purged_but_one_that_pauses_too_long(processes: Processes, alias: str) -> None:
    store, lease = stores[alias].namespace(uuid.uuid4().hex), conf.get().spool_lease / 1000
    store.spool.write("c", uploads.OLD)
    uploading = processes.start(uploads.upload_and_wait, alias, store.names[0])
    for _ in range(uploads.PIECES):
        uploading.expect("one piece is written")
        age(store, lease * 0.9)  # without a renewal the second time ends the lease
        assert uploads.purge_uploads(store) == 0
        assert uploads.body(store) == uploads.OLD
        uploading.go()

    uploading.expect("one piece is written")
    uploading.pause()
    assert uploads.body(store) == uploads.NEW
    age(store, lease * 1.1)
    assert uploads.purge_uploads(store) == 1
    uploading.resume()
    uploading.go()

    written, failure = uploading.result()
    assert written == uploads.NEW
    assert "STATESTORE['SPOOL_LEASE']" in failure
    assert uploads.body(store) == uploads.NEW
    assert not SpoolBlob.objects.using(alias).exclude(lease_until=None).exists()
