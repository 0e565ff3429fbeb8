"""How the test databases are emptied after a test that commits."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connections, transaction
from django.test import TransactionTestCase

# Made by `migrate`, and looked up by everything that asks for a permission.
KEPT = {"auth_permission", "django_content_type"}


def empty(alias: str) -> None:
    """Delete every row but those of `KEPT`."""
    connection = connections[alias]
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    # Django's foreign keys are checked at the end of a transaction, so the order does not matter.
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        for table in set(tables) - KEPT:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")


@contextmanager
def quick_cleaning() -> Iterator[None]:
    """Delete rows where Django's test case truncates tables and makes the permissions anew, at many times the cost."""

    def teardown(self: TransactionTestCase) -> None:
        for alias in self.databases:  # names by now, also for `__all__`
            empty(alias)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", teardown)
        yield
