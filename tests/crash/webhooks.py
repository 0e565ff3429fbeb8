"""A webhook whose event becomes a row, a queued item and a task in one transaction. Run in a child."""

from pathlib import Path

from django.contrib.auth.models import Group
from django.db import connections, transaction

from django_statestore import stores
from django_statestore.models import Task
from tests.crash.forks import configure, together
from tests.crash.journey import START
from tests.crash.maintenance import kill_each
from tests.crash.scripted import SCRIPT_END, SCRIPTED

DAY = 86_400


def handle(alias: str, namespace: str, event: str) -> str:
    """Do what the view does, and return what the sender is told."""
    store = stores[alias].namespace(namespace)
    with transaction.atomic(using=alias):
        if store.dedup.seen(event, ttl=DAY):
            return "repeat"
        Group.objects.using(alias).create(name=f"{namespace} {event}")
        store.queue.enqueue("outbox", event)
        SCRIPTED[alias].start(START, task_id=event, namespace=[namespace])
    return "done"


def effects(alias: str, namespace: str) -> tuple[int, int, int]:
    """Count the rows, the items and the tasks that a namespace has."""
    return (
        Group.objects.using(alias).filter(name__startswith=f"{namespace} ").count(),
        stores[alias].namespace(namespace).queue.depth("outbox"),
        Task.objects.using(alias).filter(namespace=namespace).count(),
    )


def webhooks_killed(alias: str) -> list[str]:
    """Kill the view between any two statements: its event has had all of its effects, or none, and is sent again."""
    configure()

    def check(namespace: str) -> None:
        committed = effects(alias, namespace)
        assert committed in [(0, 0, 0), (1, 1, 1)]
        told = [handle(alias, namespace, "event") for _ in range(3)]
        assert told == ["repeat" if committed[0] else "done", "repeat", "repeat"]
        assert effects(alias, namespace) == (1, 1, 1)
        assert stores[alias].namespace(namespace).queue.dequeue("outbox") == "event"
        assert SCRIPTED[alias].run("event", namespace=[namespace]).state == SCRIPT_END

    return kill_each(lambda namespace: None, lambda namespace: handle(alias, namespace, "event"), check)


def webhooks_at_once(alias: str, namespace: str, events: list[str], folder: Path) -> list[list[str]]:
    """Deliver the same events to eight views at once; return what each was told."""
    configure()

    def deliver(number: int) -> list[str]:
        try:
            return [handle(alias, namespace, event) for event in events]
        finally:
            connections.close_all()

    return together(8, deliver, folder)
