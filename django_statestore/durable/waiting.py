"""What a task waits for, as its row tells it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from ..contracts.taskrecord import TaskRecord


@dataclass(frozen=True, slots=True)
class Wait:
    """Say what a task waits for: the signal ``name``, until its time-out, if it has one.

    ``form`` (``module:QualName``) says what an answer must look like, ``permission`` who may give it; or ``""``.
    """

    name: str
    form: str
    permission: str
    until: datetime | None


def waiting_of(record: TaskRecord) -> Wait | None:
    """Return what the task waits for; None: for no signal."""
    if not record.waiting_for or record.finished:
        return None
    spec = json.loads(record.wait_spec or "{}")
    return Wait(record.waiting_for, spec.get("form", ""), spec.get("permission", ""), record.resume_at)
