"""Both forms of an operation run on the connection, and so in the transaction, of the test."""

from django.db import transaction

from django_statestore import Store
from tests.calling import Call


def test_both_forms_join_the_open_transaction(store: Store, alias: str, call: Call) -> None:
    with transaction.atomic(using=alias):
        call(store.kv.set, "key", "value")
        assert store.kv.get("key") == "value"
        transaction.set_rollback(True, using=alias)
    assert call(store.kv.get, "key") is None
