"""Tasks that sleep, wait or are parked cost a sweep nothing: it sends no more statements, and looks at none of them."""

import secrets
from typing import Any

import pytest
from django.db import connections
from django.db.models import Model
from django.test import override_settings

from django_statestore import Store
from django_statestore.contracts.taskrecord import PARKED
from django_statestore.models import MailboxItem, Task
from django_statestore.services.sweep import sweep
from django_statestore.services.work import drive_due
from django_statestore.testing import CrashPoints
from tests.crash.journey import START
from tests.crash.ledger import Ledger, Outside
from tests.crash.scripted import WIDE
from tests.crash.voyage import FAREWELL
from tests.database.plans import watched

MANY = 1000
OF_TASKS = ("statestore_task", "statestore_mailbox")
PLANS = {
    "sqlite": [""],
    # With the parameters in sight, as the first few times, and without, as a prepared statement is planned later.
    "postgresql": ["force_custom_plan", "force_generic_plan"],
}


def multiply(store: Store, task_id: str, count: int, **changes: Any) -> None:
    """Let there be so many more tasks like that one, with what was asked of them."""
    task = Task.objects.using(store.alias).get(namespace=store.names[0], key=task_id)
    name = " ".join([task_id, *map(str, changes.values())])
    values = _values(task) | changes
    copies = [
        Task(**values | {"digest": secrets.token_bytes(32), "key": f"{name} {number}"}) for number in range(count)
    ]
    Task.objects.using(store.alias).bulk_create(copies)
    ids = Task.objects.using(store.alias).filter(key__startswith=f"{name} ").values_list("id", flat=True)
    mailbox = [_values(item) for item in MailboxItem.objects.using(store.alias).filter(task=task)]
    letters = [MailboxItem(**item | {"task_id": copy}) for copy in ids for item in mailbox]
    MailboxItem.objects.using(store.alias).bulk_create(letters)


def _values(row: Model) -> dict[str, Any]:
    fields = [field.attname for field in row._meta.concrete_fields]
    return {name: getattr(row, name) for name in fields if name != "id"}


def look(store: Store) -> None:
    """Do all that looks for something to do."""
    swept = sweep(store.alias)
    assert (swept.notified, swept.failed, swept.applied, swept.revived, swept.parked) == (0, 0, 0, 0, 0)
    assert drive_due(store.alias, bool) == 0


def statements(store: Store) -> list[str]:
    with CrashPoints() as points:
        look(store)
    return [name for name in points.passed if name.startswith("before")]


@pytest.mark.django_db(databases="__all__")
@override_settings(STATESTORE={"HINTS": True})
def test_idle_tasks_cost_a_sweep_nothing(store: Store, tmp_path: Any) -> None:
    names, alias = store.names, store.alias
    vendor = connections[alias].vendor
    with override_settings(STATESTORE={"HINTS": False}):
        outside = Outside(Ledger(tmp_path / "ledger"), CrashPoints())
        asleep = FAREWELL.tasks[alias].start(START, task_id="asleep", namespace=names).run(app=outside)
        assert (asleep.status, asleep.waiting, asleep.record.resume_at is not None) == ("ready", None, True)
        waiting = WIDE[alias].start(START, task_id="waiting", namespace=names)
        waiting.signal("of another name")
        assert waiting.run().waiting is not None
        look(store)  # the first sweep of a store makes its line
    few = {plans: cost(store, plans)[0] for plans in PLANS[vendor]}
    before = statements(store)

    multiply(store, "asleep", MANY)
    multiply(store, "waiting", MANY)
    for reason in PARKED:
        multiply(store, "waiting", MANY // len(PARKED), reason=reason, wake_at=None, fingerprint="of other code")
    with connections[alias].cursor() as cursor:
        cursor.execute("analyze")

    assert statements(store) == before
    for plans in PLANS[vendor]:
        touched, scans = cost(store, plans)
        print(f"{alias}: looks at {touched} rows or instructions among {3 * MANY} tasks, {few[plans]} among two")  # noqa: T201
        assert scans == []
        assert touched <= few[plans] + 5


def cost(store: Store, plans: str) -> tuple[int, list[str]]:
    """Return the rows that were looked at (on SQLite: the instructions), and what read a whole table."""
    with watched(store, plans) as work:
        look(store)
    assert work.plans, "nothing was seen"
    return work.touched, work.scans(*OF_TASKS)
