"""handoff on a database: its rows, and its purge."""

from django_statestore import Store
from django_statestore.models import HandoffEntry
from django_statestore.services.purge import purge
from django_statestore.testing import age
from tests.calling import Call


def test_expired_states_are_gone_and_do_not_count(store: Store, call: Call) -> None:
    call(store.handoff.set, "h", {}, 4.999)
    age(store, 4.9)
    assert call(store.handoff.get, "h") == {}
    age(store, 0.2)
    assert call(store.handoff.get, "h") is None
    assert call(store.handoff.delete, "h") is False
    assert call(store.handoff.size) == 0
    assert call(store.handoff.get_and_delete, "h") is None
    purge(store.alias)
    assert not HandoffEntry.objects.using(store.alias).filter(namespace=store.names[0]).exists()


def test_the_id_is_stored_nowhere(store: Store, call: Call) -> None:
    id = call(store.handoff.issue, {"n": 1}, 60)
    row = HandoffEntry.objects.using(store.alias).filter(namespace=store.names[0]).values().get()
    assert id not in str(row)
    assert not hasattr(store.handoff, "scan")
    assert id not in repr(store.handoff)
