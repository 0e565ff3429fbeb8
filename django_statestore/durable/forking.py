"""How a new task goes on from where another one stood."""

from __future__ import annotations

import hashlib
import logging
import uuid
from dataclasses import replace
from typing import Any

from ..contracts.history import Fork
from ..contracts.taskrecord import TaskRecord
from ..exceptions import FingerprintMismatch, InvalidArgument, RevisionMismatch
from ..flow import Flow
from .definition import Definition
from .differences import difference, outline_of
from .history import gone
from .place import Place
from .requests import sender_of
from .starting import begin, check_same, new_task

logger = logging.getLogger("django_statestore.durable")


class _Unset:
    """Be what is no state: None may be one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()
"""Stand for a state that is not given: that of the save is taken."""


def fork(place: Place, from_step: str | None, state: Any, task_id: str | None, sender: str) -> Flow[TaskRecord]:
    """Start a task that goes on at ``from_step`` of the task at ``place``; return its row."""
    by = sender_of(sender)
    source = yield from place.read_driven()
    definition = place.known(source)
    given = None if state is UNSET else definition.encode_any(state)
    digest = _digest(source, definition, from_step or "", given)
    target = replace(place, entry=place.store.durable.entry(uuid.uuid4().hex if task_id is None else task_id))
    made_before = yield from target.tasks.task_read(target.entry)
    if made_before is not None:
        check_same(made_before, digest)
        return made_before
    name = _step(source, definition) if from_step is None else from_step
    index = _index(definition, name)
    save = source.save_seq if from_step is None else (yield from _oldest_save(place, source, name))
    if given is not None:
        payload = given
    else:
        _check_shape(source, definition)
        kept = None if save is None else (yield from place.tasks.task_saved(source.id, save))
        if kept is None:
            raise gone(place, f"a save before step {name!r}")
        definition.decode(kept)
        payload = kept
    wanted = Fork(source.id, save, index)
    new = new_task(definition, target, payload, digest)
    record = yield from begin(target, new, lambda new: target.tasks.task_fork(new, wanted))
    if not record.id:  # it is made once a block on another database has committed
        record = replace(record, step_index=index, forked_from=source.id)
    extra = {"store": place.store.alias, "task_id": record.key, "forked_from": source.key, "sender": by}
    logger.info("task forked", extra=extra)
    return record


def _step(source: TaskRecord, definition: Definition[Any]) -> str:
    """Return the name of the step at which the source stands."""
    outline = outline_of(source.fingerprint) or definition.outline
    if source.step_index >= len(outline):
        raise InvalidArgument(f"the task {source.key!r} has no step left: say by from_step where the fork goes on")
    return outline[source.step_index][0]


def _index(definition: Definition[Any], step: str) -> int:
    names = [step.name for step in definition.steps]
    if step not in names:
        raise InvalidArgument(f"from_step is no step of {definition.id!r}; its steps are {', '.join(names)}")
    return names.index(step)


def _digest(source: TaskRecord, definition: Definition[Any], step: str, given: str | None) -> bytes:
    """Return what tells this fork from every other start, whether or not the save is still kept."""
    parts = ["fork", definition.id, str(source.id), step, "" if given is None else f"={given}"]
    return hashlib.sha256("\0".join(parts).encode()).digest()


def _oldest_save(place: Place, source: TaskRecord, step: str) -> Flow[int | None]:
    """Return the oldest kept save at which the step came next, in the order of steps that the source has."""
    names = [name for name, _ in outline_of(source.fingerprint) or ()]
    if step not in names:
        return None
    saves = yield from place.tasks.task_history(source.id)
    return next((each.save for each in saves if each.next_index == names.index(step)), None)


def _check_shape(source: TaskRecord, definition: Definition[Any]) -> None:
    """Refuse to go on with a state that other code has made."""
    if source.revision != definition.revision:
        raise RevisionMismatch(
            f"the task {source.key!r} was made by revision {source.revision!r} of {definition.id!r}; this code has "
            f"{definition.revision!r}: give the state to fork with{difference(source.fingerprint, definition)}"
        )
    if source.fingerprint != definition.fingerprint:
        raise FingerprintMismatch(
            f"the task {source.key!r} was made by other steps under the same revision of {definition.id!r}: give the "
            f"state to fork with{difference(source.fingerprint, definition)}"
        )
