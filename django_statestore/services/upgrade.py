"""Before a deploy: which open tasks could the code at hand not continue?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..contracts.tasks import OpenTask, TaskPrimitives
from ..durable.definition import Definition
from ..durable.differences import difference
from ..durable.registry import find_definition
from ..exceptions import StateInvalid
from ..keys import Namespace, decode_namespace
from .sweep import task_stores

PAGE = 100


@dataclass(frozen=True, slots=True)
class Stuck:
    """Name an open task that the code at hand could not continue, and why.

    ``migration``: one is registered, or a chain of them, that leads to the revision at hand.
    """

    store: str
    namespace: Namespace
    task_id: str
    definition: str
    problem: str
    migration: bool


def stuck_tasks(alias: str | None = None, *, page: int = PAGE) -> Iterator[Stuck]:
    """Yield the open tasks of one store, or of all of them, that would stand still under the code at hand.

    Reads them in pages, with their newest states, and nothing else; writes nothing.
    """
    for store in task_stores():
        if alias not in (None, store.alias):
            continue
        assert isinstance(store.backend, TaskPrimitives)
        after = 0
        while rows := store.backend.tasks_open(after, page).run():
            for row in rows:
                if found := _judged(store.alias, row):
                    yield found
            after = rows[-1].id


def _judged(alias: str, task: OpenTask) -> Stuck | None:
    definition = find_definition(task.definition)
    problem = "no installed app defines it" if definition is None else _problem(task, definition)
    if not problem:
        return None
    migration = (
        definition is not None
        and task.revision != definition.revision
        and definition.migrations.path(task.revision) is not None
    )
    return Stuck(alias, decode_namespace(task.namespace), task.key, task.definition, problem, migration)


def _problem(task: OpenTask, definition: Definition[object]) -> str:
    differs = difference(task.fingerprint, definition)
    if task.revision != definition.revision:
        return f"it has revision {task.revision!r}, the code has {definition.revision!r}{differs}"
    if task.fingerprint != definition.fingerprint:
        return f"the steps have changed, but revision {task.revision!r} has not{differs}"
    try:
        definition.decode(task.state)
    except StateInvalid as error:
        return f"its state is not one that the code accepts: {error}"
    return ""
