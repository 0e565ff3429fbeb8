"""Every way in which a task may stand, and every call that may meet it there."""

from __future__ import annotations

from typing import Any

from django_statestore.contracts.journal import CallLine
from django_statestore.contracts.mailbox import Limits, Request
from django_statestore.contracts.tasks import Failure
from django_statestore.contracts.tokens import token_digest
from django_statestore.testing import age
from tests.memory.calls import (
    DELAY,
    GRACE,
    LEASE,
    RETENTION,
    a_checkpoint,
    a_failure,
    a_repair,
    a_save,
    entered,
    forked,
    known,
    leased,
    new,
    numbered,
    opened,
    renewed,
    there,
    waited,
    waited_again,
    woken,
)  # fmt: skip
from tests.memory.sides import Apply, Side

TOKEN = token_digest("one")


def aged(seconds: int) -> Apply:
    return lambda side: age(side.store, seconds)


def start(side: Side) -> Any:
    return side.engine.task_start(new(side, "a")).run()


def diverge(side: Side) -> Any:
    return side.engine.tasks_diverge([], GRACE).run()


def asked(kind: Any, name: str = "", key: str | None = None, notify: int | None = None, *limits: Any) -> Apply:
    return entered("task_request", "a", Request(kind, name, '"x"', key, "ann", Limits(*limits), notify))


def swept(name: str, does: bool, *args: int) -> Apply:
    return lambda side: getattr(side.engine, name)(known(side, does), *args).run()


def waits(delay: int | None, name: str, *, last: bool = False, sees: bool = True) -> Apply:
    return waited("a", 0, delay, name, sees, last, 1, 1, 0, 2, False, False, False)


# -- the ways in which a task stands ----------------------------------------------------------------------------------

_CLAIM = there("task_claim", "a", 0, "w", LEASE, enter=True, calls=2)
_HELD: tuple[Apply, ...] = (start, _CLAIM)
_PARK = there("task_park", "a", 0, "crash_loop")
_FAIL = there("task_fail", "a", 0, Failure("error", DELAY, False, "", "", False, None))
_WAKE = woken("task_claim", "a", 0, "right", enter=True, calls=0)
_WAITING = (*_HELD, waits(DELAY, "go"))
_EXCLUSIVE = leased("a", TOKEN)

STANDINGS: dict[str, tuple[Apply, ...]] = {
    "nothing": (),
    "locked, never saved": (_EXCLUSIVE,),
    "saved by another engine": (entered("durable_save", "a", a_checkpoint("running", True), '"saved"'),),
    "started": (start,),
    "started for later": (lambda side: side.engine.task_start(new(side, "a", True, False, True)).run(),),
    "entered": _HELD,
    "entered, with calls and items": (
        *_HELD,
        there("task_journal", "a", 0, CallLine("go", 1, b"a" * 32, "1")),
        there("task_commit", "a", 0, a_save("enter", 1, 1, 1, 3)),
        there("task_journal", "a", 0, CallLine("go", 1, b"a" * 32, "2")),
    ),
    "claimed to reconcile": (*_HELD, aged(10), there("task_claim", "a", 0, "v", LEASE, enter=False, calls=0)),
    "interrupted": (*_HELD, aged(10)),
    "interrupted, overdue": (*_HELD, aged(100)),
    "backing off": (*_HELD, _FAIL),
    "to be tried again": (*_HELD, _FAIL, aged(20)),
    "cancel asked for": (*_HELD, asked("cancel", "why")),
    "sleeping": (*_HELD, waits(DELAY, "")),
    "slept out at the end": (*_HELD, waits(DELAY, "", last=True), aged(20)),
    "waiting": _WAITING,
    "waiting for ever": (*_HELD, waits(None, "go")),
    "waiting, overdue": (*_HELD, waits(None, "go"), aged(100)),
    "waiting, asked for something else": (*_WAITING, asked("signal", "other", "k1")),
    "waiting, signalled": (*_WAITING, asked("signal", "go", "k1", GRACE), asked("signal", "go")),
    "waiting, having overlooked a signal": (*_HELD, asked("signal", "go"), waits(DELAY, "go", sees=False)),
    "waiting, cancel asked for": (*_WAITING, asked("cancel", "why")),
    "waiting, parked": (*_WAITING, _PARK),
    "waiting, parked, signalled": (*_WAITING, _PARK, asked("signal", "go")),
    "waiting, locked": (*_WAITING, _EXCLUSIVE),
    "waiting, locked and signalled": (*_WAITING, _EXCLUSIVE, asked("signal", "go")),
    "waited out": (*_WAITING, aged(20)),
    "woken by a signal": (*_WAITING, asked("signal", "go", "k1"), _WAKE),
    "parked": (*_HELD, _PARK),
    "parked, cancel asked for": (*_HELD, _PARK, asked("cancel", "why")),
    "short of calls": (*_HELD, there("task_commit", "a", 0, a_save("enter", 1, 0, 3))),
    "diverging": (*_WAITING, aged(20), diverge, aged(35)),
    "diverged": (*_WAITING, aged(20), diverge, aged(35), diverge),
    "locked while it sleeps": (*_HELD, waits(DELAY, ""), _EXCLUSIVE),
    "locked while it sleeps, and left": (*_HELD, waits(DELAY, ""), _EXCLUSIVE, aged(10)),
    "locked while parked, and left": (*_HELD, _PARK, _EXCLUSIVE, aged(10)),
    "completed": (*_HELD, there("task_commit", "a", 0, a_save("completed"))),
    "cancelled": (*_HELD, asked("cancel", "why", "k1"), there("task_commit", "a", 0, a_save("enter"))),
}  # fmt: skip

# -- the calls --------------------------------------------------------------------------------------------------------

_LOOKS = (
    numbered("task_mail", "a", "go"), numbered("task_look", "a", "go"), numbered("task_items", "a", "i0"),
    numbered("task_lines", "a", 1, 2), opened("a"), swept("tasks_due", True, 9), numbered("task_unnotify", "a"),
)  # fmt: skip

CALLS: dict[str, Apply] = {
    "start": start,
    "claim": _CLAIM,
    "claim to reconcile": there("task_claim", "a", 0, "w", LEASE, enter=False, calls=0),
    **{f"claim, {how}": woken("task_claim", "a", 0, how, enter=True, calls=0)
       for how in ("right", "time-out", "stale", "used")},
    "enter": there("task_enter", "a", 0, calls=1),
    **{f"commit, {ending}": there("task_commit", "a", 0, a_save(ending, 1, 1, 1, 2, True, True, True))
       for ending in ("enter", "stop", "completed", "failed")},
    "commit, late": there("task_commit", "a", 1, a_save("enter")),
    "commit a sleep": waits(DELAY, ""),
    "commit a wait": waits(DELAY, "go"),
    "commit a wait for ever": waits(None, "go"),
    "commit a last wait": waits(DELAY, "go", last=True),
    "commit a wait that overlooks": waits(DELAY, "go", sees=False),
    "fail": there("task_fail", "a", 0, a_failure(False, False, True)),
    "fail, cancelled": there("task_fail", "a", 0, a_failure(True, True, False)),
    "renew": renewed("a", 0, True),
    "journal": there("task_journal", "a", 0, CallLine("go", 1, b"a" * 32, "1")),
    "cancel": there("task_cancel", "a", 0, "over"),
    "park": _PARK,
    "park as ready": there("task_park", "a", 0, "crash_loop", ready=True),
    "restore": there("task_restore", "a", 0),
    "let go": there("task_let_go", "a", 0, "state_invalid", "note", pause=LEASE, grace=GRACE),
    "wait again": waited_again("a", 0, False),
    "wait again, stale": waited_again("a", 0, True),
    **{f"complete, {how}": woken("task_complete", "a", 0, how) for how in ("none", "right", "time-out", "stale")},
    "retry now": there("task_repair", "a", 0, a_repair("retry_now", "ready", False, True)),
    "mark not done": there("task_repair", "a", 0, a_repair("mark_not_done", "ready", False, False)),
    "mark done": there("task_repair", "a", 0, a_repair("mark_done", "ready", False, True)),
    "mark the last done": there("task_repair", "a", 0, a_repair("mark_done", "completed", False, False)),
    "migrate": there("task_repair", "a", 0, a_repair("migrate", "ready", True, False)),
    "fork": forked("b", "a", None),
    "fork with items": forked("b", "a", 1, True, True, True),
    "signal": asked("signal", "go", None, GRACE),
    "signal by a key": asked("signal", "go", "k1"),
    "signal something else": asked("signal", "other", "k2", GRACE),
    "ask for a cancel": asked("cancel", "enough", None, GRACE),
    "grant": asked("grant", "", "k2", GRACE, 1, 2, 120_000),
    "grant a deadline": asked("grant", "", None, None, 0, 0, 10_000),
    "apply requests": entered("task_apply_requests", "a", GRACE),
    "notify": swept("tasks_notify", True, GRACE, 9),
    "diverge": swept("tasks_diverge", False, GRACE),
    "revive": swept("tasks_revive", True),
    "purge": lambda side: side.engine.tasks_purge(RETENTION, 9).run(),
    "lock": _EXCLUSIVE,
    "lock by another": leased("a", token_digest("two")),
    "release": entered("durable_release", "a", TOKEN),
    "commit by a token": entered("durable_commit", "a", TOKEN, a_checkpoint("running", False), '"mine"'),
    **{f"save, {status}": entered("durable_save", "a", a_checkpoint(status, True), '"saved"')
       for status in ("ready", "running", "completed")},
}  # fmt: skip

CALLS["look"] = lambda side: [look(side) for look in _LOOKS]

AFTERWARDS: tuple[Apply, ...] = (
    swept("tasks_notify", True, GRACE, 9),
    aged(35),
    swept("tasks_notify", True, GRACE, 9),
    _EXCLUSIVE,
    entered("durable_release", "a", TOKEN),
)
"""What shows of a row that nobody is told: whom it trusts to be messaged, and which requests it has seen."""
