"""Calls of the engine's primitives, drawn at random."""

from __future__ import annotations

from hypothesis import strategies as st

from django_statestore.contracts.journal import CallLine
from django_statestore.contracts.mailbox import Limits, Request
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
    letter,
    new,
    numbered,
    opened,
    renewed,
    there,
    waited,
    waited_again,
    woken,
)  # fmt: skip
from tests.memory.sides import KEYS

flag, small, key = st.booleans(), st.integers(0, 2), st.sampled_from([KEYS[0], *KEYS])
late = st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2, 5])
token = st.sampled_from(["one", "two"]).map(token_digest)
name, delay = st.sampled_from(["go", "go", "other"]), st.sampled_from([None, DELAY])
saved = (st.integers(0, 1), st.integers(0, 1), small, small, flag, flag, flag)
statuses = st.sampled_from(["ready", "running", "completed", "cancelled"])
hows = st.sampled_from(["right", "right", "right", "time-out", "time-out", "stale", "used", "none"])

REQUESTS = st.one_of(
    st.builds(
        lambda name, key, notify: Request("signal", name, f'"{key}"', key, "ann", notify=notify),
        name, st.sampled_from([None, None, "k1", "k2"]), st.sampled_from([None, GRACE]),
    ),
    st.builds(lambda notify: Request("cancel", "why", sender="bob", notify=notify), st.sampled_from([None, GRACE])),
    st.builds(
        lambda key, notify, *limits: Request("grant", key=key, sender="cy", limits=Limits(*limits), notify=notify),
        st.sampled_from([None, None, "k1"]), st.sampled_from([None, GRACE]), small, small,
        st.sampled_from([None, 10_000, 120_000]),
    ),
)  # fmt: skip

STEPS = st.one_of(
    st.builds(lambda key, *how: lambda side: side.engine.task_start(new(side, key, *how)).run(), key, flag, flag, flag),
    st.builds(
        lambda key, late, how, enter, calls: woken("task_claim", key, late, how, enter=enter, calls=calls),
        key, late, hows, flag, small,
    ),
    st.builds(
        lambda key, late, enter, calls: there("task_claim", key, late, "w", LEASE, enter=enter, calls=calls),
        key, late, flag, small,
    ),
    st.builds(lambda key, late, calls: there("task_enter", key, late, calls=calls), key, late, small),
    st.builds(
        lambda key, late, *save: there("task_commit", key, late, a_save(*save)),
        key, late, st.sampled_from(["enter", "enter", "stop", "completed", "failed"]), *saved,
    ),
    st.builds(waited, key, late, delay, st.sampled_from(["", "go", "go", "other"]), flag, flag, *saved),
    st.builds(lambda key, late, *how: there("task_fail", key, late, a_failure(*how)), key, late, flag, flag, flag),
    st.builds(renewed, key, late, flag),
    st.builds(
        lambda key, late, name, n: there("task_journal", key, late, CallLine(name, n, b"a" * 32, str(n))),
        key, late, name, small,
    ),
)  # fmt: skip

UNHELD = st.one_of(
    st.builds(lambda key, late: there("task_cancel", key, late, "over"), key, late),
    st.builds(lambda key, late, ready: there("task_park", key, late, "crash_loop", ready=ready), key, late, flag),
    st.builds(lambda key, late: there("task_restore", key, late), key, late),
    st.builds(
        lambda key, late: there("task_let_go", key, late, "diverged", "note", pause=LEASE, grace=GRACE), key, late
    ),
    st.builds(waited_again, key, late, st.sampled_from([False, False, True])),
    st.builds(lambda key, late, how: woken("task_complete", key, late, how), key, late, hows),
    st.builds(
        lambda key, late, *how: there("task_repair", key, late, a_repair(*how)),
        key, late, st.sampled_from(["retry_now", "mark_not_done", "mark_done", "migrate"]),
        st.sampled_from(["ready", "running", "completed"]), flag, flag,
    ),
    st.builds(forked, key, key, st.sampled_from([None, 0, 1, 5]), flag, flag, flag),
)  # fmt: skip

MAIL = st.one_of(
    st.builds(lambda key, request: entered("task_request", key, request), key, REQUESTS),
    st.builds(lambda key, request: entered("task_request", key, request), key, REQUESTS),
    st.builds(lambda key: entered("task_apply_requests", key, GRACE), key),
    st.builds(lambda key, name: numbered("task_mail", key, name), key, name),
    st.builds(lambda key, name: numbered("task_look", key, name), key, name),
    st.builds(letter, small),
)

LOOKS = st.one_of(
    st.builds(lambda key, name: numbered("task_items", key, name), key, st.sampled_from(["i0", "i1"])),
    st.builds(lambda key, after, limit: numbered("task_lines", key, after, limit), key, small, small),
    st.builds(opened, key),
)

CONTRACT = st.one_of(
    st.builds(leased, key, token),
    st.builds(lambda key, token: entered("durable_release", key, token), key, token),
    st.builds(
        lambda key, token, *what: entered("durable_commit", key, token, a_checkpoint(*what), '"mine"'),
        key, token, statuses, flag,
    ),
    st.builds(lambda key, *what: entered("durable_save", key, a_checkpoint(*what), '"saved"'), key, statuses, flag),
    st.builds(
        lambda key, token: lambda side: side.engine.durable_renew([(side.entry(key), token, LEASE)]).run(), key, token
    ),
)  # fmt: skip

SWEEP = st.one_of(
    st.builds(lambda does: lambda side: side.engine.tasks_notify(known(side, does), GRACE, 9).run(), flag),
    st.builds(lambda does: lambda side: side.engine.tasks_due(known(side, does), 9).run(), flag),
    st.builds(lambda key: numbered("task_unnotify", key), key),
    st.builds(lambda does: lambda side: side.engine.tasks_diverge(known(side, does), GRACE).run(), flag),
    st.builds(lambda does: lambda side: side.engine.tasks_revive(known(side, does)).run(), flag),
    st.builds(lambda: lambda side: side.engine.tasks_purge(RETENTION, 9).run()),
    st.builds(lambda: lambda side: side.engine.tasks_with_requests(0, 9).run()),
)

TIME = st.builds(lambda seconds: lambda side: age(side.store, seconds), st.sampled_from([5, 10, 10, 20, 35, 100_000]))

OPERATIONS = st.one_of(STEPS, STEPS, STEPS, UNHELD, UNHELD, MAIL, MAIL, CONTRACT, SWEEP, LOOKS, TIME, TIME)
