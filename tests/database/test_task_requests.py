"""Requests inside a caller's transaction: stored with it, applied once after it, no burden on the task meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_statestore import Store
from django_statestore.contracts.journal import CallLine, Item
from django_statestore.contracts.mailbox import Limits, Reply, Request
from django_statestore.contracts.tasks import Wait
from tests.calling import Call
from tests.database.test_interleaved import open_transaction
from tests.durable.conftest import Bench
from tests.durable.raw import Raw

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture
def raw(store: Store, call: Call) -> Raw:
    return Raw(Bench(store.alias, store, call))


class RolledBack(Exception):
    """Roll a block back."""


def apply(raw: Raw, notify: int | None = None) -> Reply:
    return raw.do(raw.tasks.task_apply_requests(raw.entry(), notify))


def test_a_request_is_stored_with_the_transaction_and_applied_after_it(raw: Raw) -> None:
    task = raw.start().id
    raw.wait()
    with transaction.atomic(using=raw.bench.alias):
        assert raw.signal("go", '"x"', sender="ann") == Reply("stored", task)
        assert raw.look() == (0, False)
    assert raw.record().signal_seq == 0
    assert [(letter.seq, letter.dropped) for letter in raw.do(raw.tasks.task_letters(task))] == [(None, False)]
    assert raw.mail() is None, "it was not applied"
    assert apply(raw) == Reply("applied", task, woken=True)
    assert raw.look() == (1, True)
    mail = raw.mail()
    assert mail is not None
    assert (mail.payload, mail.sender) == ('"x"', "ann")
    assert raw.record().due
    assert apply(raw) == Reply("applied", task, woken=False)
    assert raw.record().signal_seq == 1


def test_a_request_that_is_rolled_back_was_never_sent(raw: Raw) -> None:
    task = raw.start().id
    with pytest.raises(RolledBack), transaction.atomic(using=raw.bench.alias):
        raw.signal("go", key="k")
        raise RolledBack
    assert apply(raw).woken is False
    assert raw.do(raw.tasks.task_letters(task)) == []
    assert raw.signal("go", key="k").answered == "applied"


def test_all_that_was_stored_is_applied_in_its_order(raw: Raw) -> None:
    before = raw.start(max_calls=10)
    raw.do(raw.tasks.task_park(raw.at(), "budget_exhausted"))
    with transaction.atomic(using=raw.bench.alias):
        raw.grant(attempts=2, model_calls=3, deadline=7_200_000, sender="ann")
        raw.signal("go")
        raw.cancel("enough", sender="bob")
    assert raw.record().parked
    assert apply(raw, notify=600_000).woken
    after = raw.record()
    assert (after.max_attempts, after.max_calls) == (before.max_attempts + 2, 13)
    assert (after.reason, after.cancel_requested, after.due) == ("", "enough", True)
    assert before.deadline is not None
    assert after.deadline is not None
    assert after.deadline > before.deadline
    letters = raw.do(raw.tasks.task_letters(before.id))
    assert [(letter.kind, letter.seq) for letter in letters] == [("grant", 1), ("signal", 2), ("cancel", 3)]
    lines = raw.do(raw.tasks.task_lines(before.id, 0, 100))
    assert [(line.name, line.sender, line.value) for line in lines] == [
        ("grant", "ann", '{"attempts":2,"model_calls":3,"deadline":7200000}'),
        ("cancel", "bob", '"enough"'),
    ]
    due = raw.do(raw.tasks.tasks_notify(["print"], 1000, 1000))
    assert before.id not in [each.id for each in due], "who applied it sends the message"


def test_a_key_is_known_within_its_own_transaction_and_to_others_after_it(raw: Raw) -> None:
    task = raw.start().id
    with transaction.atomic(using=raw.bench.alias):
        assert raw.signal("go", "1", key="k").answered == "stored"
        assert raw.signal("go", "2", key="k") == Reply("known", task)
    assert raw.signal("go", "3", key="k") == Reply("known", task)
    apply(raw)
    mail = raw.mail()
    assert mail is not None
    assert mail.payload == "1"


def test_what_comes_too_late_is_dropped(raw: Raw) -> None:
    task = raw.start().id
    raw.claim()
    with transaction.atomic(using=raw.bench.alias):
        raw.signal("go")
        raw.grant(attempts=1)
    raw.commit(ending="completed")
    before = raw.record()
    assert apply(raw) == Reply("applied", task, woken=False)
    letters = raw.do(raw.tasks.task_letters(task))
    assert [(letter.seq, letter.dropped) for letter in letters] == [(None, True), (None, True)]
    after = raw.record()
    assert (after.max_attempts, after.signal_seq, after.fence) == (before.max_attempts, 0, before.fence)
    raw.bench.age(10)
    assert task not in [due.id for due in raw.do(raw.tasks.tasks_with_requests(1000, 100))]


@pytest.mark.parametrize("kind", ["signal", "cancel", "grant"])
def test_inside_a_transaction_too_no_open_task_means_refused(raw: Raw, kind: str) -> None:
    raw.start()
    raw.claim()
    raw.commit(ending="completed")
    request = Request(kind, "go", key="k")  # type: ignore[arg-type]
    with transaction.atomic(using=raw.bench.alias):
        assert raw.request(request).answered == "refused"
        assert raw.request(request, "unknown").answered == "refused"


def test_the_sweep_finds_what_nobody_has_applied_and_not_before_its_time(raw: Raw) -> None:
    task = raw.start().id
    with transaction.atomic(using=raw.bench.alias):
        raw.signal("go")
        raw.signal("go")

    def found() -> list[int]:
        return [due.id for due in raw.do(raw.tasks.tasks_with_requests(1000, 100))]

    assert task not in found()
    raw.bench.age(2)
    assert found().count(task) == 1
    apply(raw)
    assert task not in found()


def test_an_open_transaction_with_a_request_holds_no_row_of_the_task(postgres: Store) -> None:
    raw = Raw(Bench(postgres.alias, postgres, Call(asynchronous=False)))
    raw.start()
    raw.claim()
    replies = list[Reply]()
    with open_transaction(
        postgres,
        lambda: replies.extend([raw.signal("go"), raw.cancel(), raw.request(Request("grant", limits=Limits(1)))]),
        commit=True,
    ):
        assert raw.commit(ending="enter") is not None
    assert [reply.answered for reply in replies] == ["stored"] * 3


# -- what it costs ----------------------------------------------------------------------------------------------------

CALL = CallLine("search", 1, b"a" * 32, "null")


def cost(raw: Raw, what: str) -> int:
    """Return how many statements an operation sends, in the state in which it is sent."""
    if what != "signal":
        raw.claim()
    if what == "claim":
        raw.commit(ending="wait", wait=Wait(None, "go"))
        raw.signal("go")
    if what == "complete":
        raw.commit(ending="wait", wait=Wait(None, "go"), last=True)
        raw.signal("go")
    at, waking = raw.at(), raw.waking()
    task, tasks = at.task, raw.tasks
    operations: dict[str, Callable[[], object]] = {
        "signal": lambda: raw.signal("go"),
        "claim": lambda: raw.do(tasks.task_claim(at, "worker", 1000, enter=True, calls=0, waking=waking)),
        "complete": lambda: raw.do(tasks.task_complete(at, waking)),
        "call": lambda: raw.do(tasks.task_journal(at, CALL)),
        "calls": lambda: raw.do(tasks.task_calls(task, 0)),
        "items": lambda: raw.do(tasks.task_items(task, "log")),
        "look": lambda: raw.do(tasks.task_look(task, "go")),
    }
    with CaptureQueriesContext(connections[raw.bench.alias]) as captured:
        assert operations[what]() is not None
    return len(captured)


@pytest.mark.parametrize("what", ["signal", "claim", "complete", "call", "calls", "items", "look"])
def test_each_is_one_statement_on_postgresql(postgres: Store, what: str) -> None:
    raw = Raw(Bench(postgres.alias, postgres, Call(asynchronous=False)))
    raw.start()
    assert cost(raw, what) == 1


@pytest.mark.parametrize("ending", ["enter", "stop", "wait", "completed", "failed"])
@pytest.mark.parametrize("items", [0, 3])
def test_a_commit_is_one_statement_on_postgresql_whatever_goes_with_it(
    postgres: Store, ending: str, items: int
) -> None:
    raw = Raw(Bench(postgres.alias, postgres, Call(asynchronous=False)))
    raw.start()
    raw.claim()
    with CaptureQueriesContext(connections[postgres.alias]) as captured:
        raw.commit(ending=ending, items=(Item("log", "1"),) * items, forget_through=0 if items else None)
    assert len(captured) == 3, "two looks of the test and the commit"
