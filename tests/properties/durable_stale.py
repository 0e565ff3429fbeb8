"""Whatever a worker, or a repair, that has read an older row may write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_statestore.contracts.history import Repair
from django_statestore.contracts.journal import CallLine
from django_statestore.contracts.position import Position
from django_statestore.contracts.tasks import Failure, Save, Wait, Waking

from .durable_model import LEASE


def ms(minutes: float) -> int:
    return round(minutes * 60_000)


def stale_writes(engine: Any, at: Position) -> list[Callable[[], Any]]:
    """Return whatever a worker, or a repair, that has read an older row may write."""
    save = Save(
        ending="stop", state="0", step="stale", turn=1, attempts=0, outcome="done", milliseconds=0, worker="stale",
        next_index=0, next_turn=1, more_attempts=1, refund=1, calls=0, lease=ms(LEASE), notify=None,
    )  # fmt: skip
    line = CallLine("stale", 1, bytes(32), "0")
    wait = Save(**{field: getattr(save, field) for field in save.__slots__} | {"ending": "wait", "wait": Wait(1000)})
    failure = Failure("stale", 1000, False, "", "", keep_claims=False, notify=None)
    return [
        lambda: engine.task_commit(at, save).run(),
        lambda: engine.task_commit(at, wait).run(),
        lambda: engine.task_fail(at, failure).run(),
        lambda: engine.task_journal(at, line).run(),
        lambda: engine.task_enter(at, calls=0).run(),
        lambda: engine.task_claim(at, "stale", ms(LEASE), enter=True, calls=0).run(),
        lambda: engine.task_claim(at, "stale", ms(LEASE), enter=True, calls=0, waking=Waking(0, None)).run(),
        lambda: engine.task_park(at, "crash_loop").run(),
        lambda: engine.task_cancel(at, "stale").run() or engine.task_restore(at).run(),
        lambda: engine.task_wait_again(at, 0).run(),
        lambda: engine.task_complete(at, None).run(),
        lambda: engine.task_repair(at, Repair("retry_now", "stale", "null", None)).run(),
    ]
