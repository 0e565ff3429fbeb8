"""list on a database: its rows, and its purge."""

from django_statestore import Store
from django_statestore.models import ListHead, ListItem
from django_statestore.services.purge import purge
from django_statestore.testing import age
from tests.calling import Call


def test_max_len_drops_the_oldest_and_the_length_is_after_that(store: Store, call: Call) -> None:
    lengths = [call(store.list.append, "L", value, max_len=2) for value in range(5)]
    assert (lengths, call(store.list.range, "L")) == ([1, 2, 2, 2, 2], [3, 4])
    assert call(store.list.append, "L", 5) == 3
    assert call(store.list.append, "L", 6, max_len=1) == 1
    assert call(store.list.range, "L") == [6]
    assert ListItem.objects.using(store.alias).filter(list__namespace=store.names[0]).count() == 1


def test_the_purge_removes_expired_and_emptied_lists_whole(store: Store, call: Call) -> None:
    call(store.list.append, "expired", 1, ttl=10)
    call(store.list.append, "emptied", 1)
    call(store.list.delete, "emptied")
    call(store.list.append, "kept", 1)
    age(store, 11)
    purge(store.alias)
    heads = ListHead.objects.using(store.alias).filter(namespace=store.names[0])
    assert [head.key for head in heads] == ["kept"]
    assert ListItem.objects.using(store.alias).filter(list__namespace=store.names[0]).count() == 1
