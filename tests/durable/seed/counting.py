"""The task of the contract's demonstrations: it counts to one, or commits one count to a business."""

from __future__ import annotations

import time
from typing import Any

from django_statestore.contracts.checkpoint import Checkpoint

from .interpreter import Context, SeedTask, Step

TASK_ID = "demo-task"
Committed = dict[str, int]


def demo_checkpoint(**changes: Any) -> Checkpoint:
    """Return the checkpoint with which every demonstration begins, read from its document."""
    document = {
        "version": 2, "definitionId": "count", "revision": "1", "nextStepIndex": 0, "attemptCount": 0,
        "maxAttempts": 3, "deadlineAtMs": int(time.time() * 1000) + 60_000, "status": "ready", "state": {"count": 0},
    }  # fmt: skip
    return Checkpoint.from_json(document | changes)


def is_state(value: Any) -> bool:
    return isinstance(value, dict) and type(value.get("count")) is int


def count_up(state: Any, context: Context) -> Any:
    return {"count": state["count"] + 1}


def counting(steps: int = 1, **options: Any) -> SeedTask:
    """Return the first demonstration: steps that may be run again."""
    return SeedTask("count", "1", is_state, [Step(f"increment {n}", "safe", count_up) for n in range(steps)], **options)


def commit(state: Any, context: Context) -> Any:
    committed, key = context.app
    value = committed[key] if key in committed else state["count"] + 1
    committed[key] = value
    return {"count": value}


def look_up(state: Any, context: Context) -> Any:
    committed, key = context.app
    if key not in committed:
        raise LookupError("there is no committed result to be found: the app must decide")
    return {"count": committed[key]}


def committing(run: Any = commit) -> SeedTask:
    """Return the second: a step whose effect is looked up in the business, by the id of the task."""
    return SeedTask("count", "1", is_state, [Step("commit", "reconcile", run, look_up)])
