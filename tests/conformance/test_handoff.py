"""handoff: carry-over state behind a one-shot id."""

import pytest

from django_statestore import Store
from django_statestore.exceptions import InvalidKey, InvalidTTL, ValueNotSerializable
from django_statestore.models import HandoffEntry
from django_statestore.services.purge import purge
from django_statestore.testing import age
from tests.calling import Call


def test_the_state_is_taken_once(store: Store, call: Call) -> None:
    call(store.handoff.set, "h", {"cart": [1, 2]}, 60)
    assert call(store.handoff.get_and_delete, "h") == {"cart": [1, 2]}
    assert call(store.handoff.get_and_delete, "h") is None
    assert call(store.handoff.get, "h") is None


def test_get_reads_without_taking(store: Store, call: Call) -> None:
    call(store.handoff.set, "h", {}, 60)
    assert call(store.handoff.get, "h") == call(store.handoff.get, "h") == {}
    assert call(store.handoff.get_and_delete, "h") == {}


def test_set_replaces_state_and_expiry(store: Store, call: Call) -> None:
    call(store.handoff.set, "h", {"n": 1}, 5)
    call(store.handoff.set, "h", {"n": 2}, 60)
    age(store, 6)
    assert call(store.handoff.size) == 1
    assert call(store.handoff.get_and_delete, "h") == {"n": 2}


def test_issue_makes_an_unguessable_id(store: Store, call: Call) -> None:
    ids = {call(store.handoff.issue, {"n": number}, 60) for number in range(5)}
    assert len(ids) == 5
    assert min(map(len, ids)) >= 32
    assert sorted(call(store.handoff.get_and_delete, id)["n"] for id in ids) == list(range(5))  # type: ignore[index]


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


def test_delete_tells_whether_there_was_one(store: Store, call: Call) -> None:
    call(store.handoff.set, "h", {}, 60)
    assert call(store.handoff.delete, "h") is True
    assert call(store.handoff.delete, "h") is False


@pytest.mark.parametrize("state", [None, [], "text", 1, {"x": object()}], ids=repr)
def test_the_state_is_a_json_object(store: Store, call: Call, state: object) -> None:
    with pytest.raises(ValueNotSerializable):
        call(store.handoff.set, "h", state, 60)  # type: ignore[arg-type]


def test_missing_ids_and_lifetimes_are_refused(store: Store, call: Call) -> None:
    for id in ("", None, 1):
        with pytest.raises(InvalidKey):
            call(store.handoff.set, id, {}, 60)  # type: ignore[arg-type]
    for ttl in (0, -1, float("nan"), None, True):
        with pytest.raises(InvalidTTL):
            call(store.handoff.set, "h", {}, ttl)  # type: ignore[arg-type]
    assert call(store.handoff.size) == 0


def test_the_id_is_stored_nowhere(store: Store, call: Call) -> None:
    id = call(store.handoff.issue, {"n": 1}, 60)
    row = HandoffEntry.objects.using(store.alias).filter(namespace=store.names[0]).values().get()
    assert id not in str(row)
    assert not hasattr(store.handoff, "scan")
    assert id not in repr(store.handoff)


def test_namespaces_are_apart(store: Store, call: Call) -> None:
    call(store.handoff.set, "h", {"n": 1}, 60)
    assert call(store.namespace("below").handoff.get_and_delete, "h") is None
    call(store.namespace("below").handoff.clear)
    assert call(store.handoff.size) == 1
    call(store.handoff.clear)
    assert call(store.handoff.size) == 0
