"""How the state of a task is carried over to a later revision of its definition."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import codec
from ..exceptions import InvalidDefinition, InvalidKey, RepairRefused, StateStoreError, ValueNotSerializable
from ..keys import check_text
from .differences import outline_of

if TYPE_CHECKING:
    from ..contracts.taskrecord import TaskRecord
    from .definition import Definition

Migration: TypeAlias = Callable[[Any, str | None], Any]


@dataclass(frozen=True, slots=True)
class Moved:
    """Be what a migration returns for a task that is to go on at another step; None: no step is left to it.

    A run of its step that was interrupted is forgotten then, whether or not it took effect.
    """

    state: Any
    step: str | None


@dataclass(frozen=True, slots=True)
class Migrated:
    """Hold what came out of a chain of migrations."""

    payload: str
    index: int
    moved: bool
    """The task goes on at another step than the one it stood at."""
    path: tuple[str, ...]
    """The revisions, from the old one to the new one."""


class Migrations:
    """Keep the migrations of one definition by the revision they start from."""

    def __init__(self, where: str, revision: str) -> None:
        self._where, self._revision = where, revision
        self._links: dict[str, tuple[str, Migration]] = {}

    def add(self, source: str, target: str, function: Migration) -> None:
        """Add one; ``InvalidDefinition``: a second one from there, or one that cannot work."""
        for revision in (source, target):
            try:
                check_text(revision, "a revision of a migration")
            except InvalidKey as error:
                raise InvalidDefinition(self._where, str(error)) from None
        if source in self._links:
            raise InvalidDefinition(self._where, f"has two migrations from revision {source!r}")
        if source in (target, self._revision):
            raise InvalidDefinition(self._where, f"has a migration from revision {source!r} that leads nowhere new")
        if inspect.iscoroutinefunction(function):
            raise InvalidDefinition(self._where, f"the migration from revision {source!r} is async: make it a def")
        self._links[source] = target, function

    def check(self) -> None:
        """Refuse a migration that does not lead, by itself or by others, to the revision at hand."""
        for source, (target, _) in self._links.items():
            if self.path(source) is None:
                raise InvalidDefinition(
                    self._where,
                    f"the migration from revision {source!r} to {target!r} does not lead to {self._revision!r}",
                )

    def path(self, source: str) -> tuple[str, ...] | None:
        """Return the revisions from ``source`` to the one at hand, both of them too; None: there is no way."""
        path = [source]
        while path[-1] != self._revision:
            target, _ = self._links.get(path[-1], (None, None))
            if target is None or target in path:
                return None
            path.append(target)
        return tuple(path)

    def function(self, source: str) -> Migration:
        return self._links[source][1]


def migrated(definition: Definition[Any], record: TaskRecord) -> Migrated:
    """Return what a task is after its migration; ``RepairRefused`` and ``StateInvalid`` say why there is none."""
    path = definition.migrations.path(record.revision)
    if path is None:
        raise RepairRefused(
            f"no migration leads from revision {record.revision!r} of {definition.id!r} to {definition.revision!r}: "
            f"declare one with @migrate({record.revision!r}, {definition.revision!r})"
        )
    value, outline = codec.loads(record.state or "null"), outline_of(record.fingerprint)
    stood = step = outline[record.step_index][0] if outline and record.step_index < len(outline) else None
    known = outline is not None
    for source, target in pairwise(path):
        value = _called(definition.migrations.function(source), value, step, f"from {source!r} to {target!r}")
        if isinstance(value, Moved):
            value, step, known = value.state, value.step, True
        if target != definition.revision:
            value = _plain(definition, value)
    if not known:
        raise RepairRefused("the task's old steps were not noted: let a migration return Moved(state, step=...)")
    moved = step != stood or outline is None
    return Migrated(definition.encode_any(value), _index(definition, step), moved, path)


def _called(function: Migration, value: Any, step: str | None, which: str) -> Any:
    try:
        return function(value, step)
    except StateStoreError:
        raise
    except Exception as error:
        raise RepairRefused(f"the migration {which} raised {type(error).__name__}: nothing was changed") from error


def _plain(definition: Definition[Any], value: Any) -> Any:
    """Return a plain value for the next migration: one that was written for this revision may return a state."""
    try:
        return codec.loads(codec.dumps(value))
    except ValueNotSerializable:
        return codec.loads(definition.encode(value))


def _index(definition: Definition[Any], step: str | None) -> int:
    names = [name for name, _ in definition.outline]
    if step is None:
        return len(names)
    if step not in names:
        raise RepairRefused(
            f"revision {definition.revision!r} of {definition.id!r} has no step {step!r}: let the migration return "
            "Moved(state, step=...)"
        )
    return names.index(step)
