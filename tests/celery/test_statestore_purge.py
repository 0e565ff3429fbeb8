"""``manage.py statestore_purge``: bounded batches, each shown."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from django_statestore import Store
from django_statestore.durable import DurableTask
from django_statestore.exceptions import TaskNotFound
from django_statestore.testing import age
from tests.celery.durable_tasks import PLAIN, Errand

pytestmark = pytest.mark.django_db(databases="__all__")


def purge(*options: str) -> list[str]:
    output = StringIO()
    call_command("statestore_purge", *options, stdout=output)
    return output.getvalue().splitlines()


def test_every_batch_is_shown(alias: str, store: Store) -> None:
    for number in range(5):
        store.kv.set(f"k{number}", number, ttl=60)
    store.kv.set("kept", 1)
    age(store, 61)
    assert purge(f"--store={alias}", "--batch-size=2") == [
        f"{alias}: kv: 2 removed",
        f"{alias}: kv: 4 removed",
        f"{alias}: kv: 5 removed",
        "removed 5 in all",
    ]
    assert store.kv.get("kept") == 1
    assert purge(f"--store={alias}", "--verbosity=0") == ["removed 0 in all"]


def test_finished_tasks_go_when_their_time_is_over(
    alias: str, store: Store, names: tuple[str, ...], errand: Errand
) -> None:
    task: DurableTask[Errand] = PLAIN[alias]
    for number in range(3):
        task.start(errand, task_id=f"t{number}", namespace=names)
        task.run(f"t{number}", namespace=names)
    task.start(errand, task_id="open", namespace=names)
    assert purge(f"--store={alias}") == ["removed 0 in all"]
    age(store, 14 * 86_400 + 1)
    assert purge(f"--store={alias}") == [f"{alias}: tasks: 3 removed", "removed 3 in all"]
    with pytest.raises(TaskNotFound):
        task.get("t0", namespace=names)
    assert task.get("open", namespace=names).status == "ready"


@pytest.mark.parametrize("option", ["--store=nowhere", "--batch-size=0"])
def test_wrong_options_are_refused(option: str) -> None:
    with pytest.raises(CommandError):
        purge(option)
