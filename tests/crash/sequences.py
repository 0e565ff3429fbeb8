"""Writes of list, queue and spool that are killed between two statements. Run in a child."""

from collections.abc import Callable

from django_statestore import Store, stores
from django_statestore.models import ListHead, ListItem, QueueHead, QueueItem
from tests.crash.forks import configure
from tests.crash.maintenance import kill_each

TOKENS: dict[str, str] = {}
"""The token of the item that is taken in a namespace."""


def token(store: Store) -> str:
    return TOKENS[store.names[0]]


WRITES: dict[str, Callable[[Store], object]] = {
    "append": lambda store: store.list.append("k", "new", max_len=2, ttl=60),
    "trim": lambda store: store.list.trim("k", 1),
    "enqueue": lambda store: store.queue.enqueue("k", "new", max_size=2),
    "dequeue": lambda store: store.queue.dequeue("k"),
    "take": lambda store: store.queue.take("k"),
    "ack": lambda store: store.queue.ack("k", token(store)),
    "release": lambda store: store.queue.release("k", token(store)),
    "delete": lambda store: store.queue.delete("k"),
    "clear": lambda store: store.queue.clear(),
    "write": lambda store: store.spool.write("k", "new"),
}


def seen(store: Store) -> list[object]:
    """Return what a caller can tell, after a look at what the heads say of their rows."""
    for head in ListHead.objects.using(store.alias).filter(namespace=store.names[0]):
        rows = ListItem.objects.using(store.alias).filter(list=head, seq__gt=head.floor).count()
        assert store.list.length(head.key) == rows == head.seq - head.floor
    for queue in QueueHead.objects.using(store.alias).filter(namespace=store.names[0]):
        assert queue.stored == QueueItem.objects.using(store.alias).filter(queue=queue).count()
    reader = store.spool.read("k")
    assert reader is not None
    head_of_list = ListHead.objects.using(store.alias).get(namespace=store.names[0])
    return [
        store.list.range("k"),
        head_of_list.expires_at is None,
        store.queue.peek("k"),
        store.queue.depth("k"),
        reader.read_all(),
    ]


def writes_killed(alias: str) -> dict[str, list[str]]:
    """Kill each write at each of its points: it has happened, or it has not; return the points."""
    configure()
    return {name: write_killed(alias, name) for name in WRITES}


def write_killed(alias: str, name: str) -> list[str]:
    before: list[object] = []
    after: list[object] = []

    def prepare(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        for number in range(3):
            store.list.append("k", number)
            store.queue.enqueue("k", number)
        store.spool.write("k", "old")
        item = store.queue.take("k", lease=600)
        assert item is not None
        TOKENS[namespace] = item.token
        before[:] = seen(store)

    def check(namespace: str) -> None:
        found = seen(stores[alias].namespace(namespace))
        if namespace.endswith("whole"):
            after[:] = found
            assert after != before
        assert found in (before, after)

    return kill_each(prepare, lambda namespace: WRITES[name](stores[alias].namespace(namespace)), check, f"{name} ")
