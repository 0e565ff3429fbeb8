"""Two that change one task, the second while the first one's transaction is still open: nothing is lost or done twice.

The second waits for the task's row, and decides on it as the first has left it, or as it was if that was rolled back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from django_statestore import Store
from django_statestore.backends.database.connection import Database
from django_statestore.contracts.history import Fork, Repair
from django_statestore.contracts.journal import CallLine, Item
from django_statestore.contracts.mailbox import Limits, Reply, Request
from django_statestore.contracts.tasks import Renewal, Save, Wait, Waking
from django_statestore.exceptions import TaskNotFound
from django_statestore.services.purge import purge
from tests.calling import Call
from tests.database.test_interleaved import open_transaction, wait_until_it_waits
from tests.durable.conftest import Bench
from tests.durable.raw import LEASE, SAVE, Raw
from tests.unit.spools import at_once

T = TypeVar("T")

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

ended = pytest.mark.parametrize("commit", [True, False], ids=["committed", "rolled-back"])


@pytest.fixture
def raw(store: Store) -> Raw:
    return Raw(Bench(store.alias, store, Call(asynchronous=False)))


@pytest.fixture
def undurable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first keep any operation in an open transaction, as a slow commit does."""
    monkeypatch.setattr(Database, "require_durable", lambda self, operation: None)
    monkeypatch.setattr(Database, "in_test_case", True)


def one_then_other(raw: Raw, first: Callable[[], Any], second: Callable[[], T], *, commit: bool = True) -> T:
    """Return what the second answers, which was sent while the first one's transaction was open."""
    answers = list[T]()
    with open_transaction(raw.bench.store, first, commit=commit) as end:
        thread = threading.Thread(target=lambda: at_once(lambda: answers.append(second())))
        thread.start()
        wait_until_it_waits(raw.bench.store, thread)
        end.set()
        thread.join(20)
    return answers[0]


def waiting(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000, "go"))


# -- a signal beside the wait for it ----------------------------------------------------------------------------------


@ended
@pytest.mark.usefixtures("undurable")
def test_the_commit_of_a_wait_never_sleeps_over_a_signal(raw: Raw, commit: bool) -> None:
    raw.start()
    raw.claim()
    at, seen = raw.at(), raw.look()[0]
    save = _wait(seen)
    committed = one_then_other(
        raw, lambda: raw.signal("go"), lambda: raw.tasks.task_commit(at, save).run(), commit=commit
    )
    assert committed is not None
    assert committed.status == "ready"
    assert raw.record().due is commit
    assert (raw.mail() is not None) is commit


@ended
@pytest.mark.usefixtures("undurable")
def test_a_signal_beside_the_commit_of_a_wait_wakes_it(raw: Raw, commit: bool) -> None:
    raw.start()
    raw.claim()
    at = raw.at()
    reply = one_then_other(
        raw, lambda: raw.tasks.task_commit(at, _wait(0)).run(), lambda: raw.signal("go"), commit=commit
    )
    assert (reply.answered, reply.woken) == ("applied", commit)
    if not commit:  # the worker sends its commit again
        raw.do(raw.tasks.task_commit(at, _wait(0)))
    assert raw.record().due
    assert raw.claim(waking=raw.waking()) is not None


def _wait(seen: int) -> Save:
    return replace(SAVE, ending="wait", wait=Wait(600_000, "go", seen=seen))


@ended
@pytest.mark.usefixtures("undurable")
def test_a_claim_of_a_time_out_never_loses_the_signal_beside_it(raw: Raw, commit: bool) -> None:
    waiting(raw)
    raw.bench.age(601)
    at = raw.at()
    claim = raw.tasks.task_claim(at, "worker", LEASE, enter=True, calls=0, waking=Waking(0, None))
    grant = one_then_other(raw, lambda: raw.signal("go"), claim.run, commit=commit)
    assert (grant is None) is commit
    assert (raw.mail() is not None) is commit
    if commit:
        assert raw.claim(waking=raw.waking()) is not None


@pytest.mark.usefixtures("undurable")
def test_a_signal_that_comes_beside_the_claim_of_a_time_out_is_kept_for_the_next_wait(raw: Raw) -> None:
    waiting(raw)
    raw.bench.age(601)
    at = raw.at()
    claim = raw.tasks.task_claim(at, "worker", LEASE, enter=True, calls=0, waking=Waking(0, None))
    reply = one_then_other(raw, claim.run, lambda: raw.signal("go"))
    assert (reply.answered, reply.woken) == ("applied", False)
    assert raw.record().received is None
    assert raw.look() == (1, True)


@ended
@pytest.mark.usefixtures("undurable")
def test_a_wait_that_goes_on_does_not_sleep_over_a_signal(raw: Raw, commit: bool) -> None:
    waiting(raw)
    at = raw.at()
    again = one_then_other(raw, lambda: raw.signal("go"), lambda: raw.tasks.task_wait_again(at, 0).run(), commit=commit)
    assert again is not commit
    assert raw.record().due is commit


@ended
@pytest.mark.usefixtures("undurable")
def test_a_last_wait_does_not_complete_as_timed_out_beside_a_signal(raw: Raw, commit: bool) -> None:
    waiting(raw)
    raw.bench.age(601)
    at = raw.at()
    completed = one_then_other(
        raw, lambda: raw.signal("go"), lambda: raw.tasks.task_complete(at, Waking(0, None)).run(), commit=commit
    )
    assert completed is not commit


# -- one signal, one use; one key, one signal -------------------------------------------------------------------------


@ended
@pytest.mark.usefixtures("undurable")
def test_an_unused_signal_is_given_once(raw: Raw, commit: bool) -> None:
    waiting(raw)
    raw.signal("go")
    at, waking = raw.at(), raw.waking()

    def claim() -> Any:
        return raw.tasks.task_claim(at, "worker", LEASE, enter=True, calls=0, waking=waking).run()

    second = one_then_other(raw, claim, claim, commit=commit)
    assert (second is None) is commit
    assert raw.mail() is None
    assert raw.record().received == waking.received
    assert raw.record().attempts == 2


@ended
@pytest.mark.usefixtures("undurable")
def test_of_two_signals_with_one_key_the_second_is_known(raw: Raw, commit: bool) -> None:
    task = raw.start().id

    def signal() -> Reply:
        return raw.signal("go", key="k")

    second = one_then_other(raw, signal, signal, commit=commit)
    assert second == Reply("known" if commit else "applied", task)
    assert len(raw.do(raw.tasks.task_letters(task))) == 1
    assert raw.record().signal_seq == 1


def test_many_signals_with_one_key_at_once_are_one(raw: Raw) -> None:
    task = raw.start().id
    replies = list[str]()

    def signal() -> None:
        for number in range(10):
            replies.append(raw.signal("go", key=f"k{number}").answered)

    at_once(*[signal] * 4)
    assert (replies.count("applied"), replies.count("known")) == (10, 30)
    letters = raw.do(raw.tasks.task_letters(task))
    assert sorted(letter.seq or 0 for letter in letters) == list(range(1, 11))
    assert raw.record().signal_seq == 10


def test_many_signals_at_once_are_each_taken_once(raw: Raw) -> None:
    raw.start(max_attempts=100)
    at_once(*[lambda: [raw.signal("go") for _ in range(5)]] * 4)
    taken = set[int]()
    for _ in range(20):
        raw.wait(wait=Wait(None, "go"))
        assert raw.claim(waking=raw.waking()) is not None
        received = raw.record().received
        assert received is not None
        taken.add(received)
        raw.commit()
    assert len(taken) == 20
    assert raw.mail() is None


def test_a_slow_request_keeps_no_worker_from_its_row(postgres: Store) -> None:
    """Two requests with one key: the second waits for the end of the first, and holds nothing meanwhile."""
    raw = Raw(Bench(postgres.alias, postgres, Call(asynchronous=False)))
    raw.start()
    raw.claim()
    replies = list[Reply]()
    with open_transaction(postgres, lambda: replies.append(raw.signal("go", key="k")), commit=True) as end:
        thread = threading.Thread(target=lambda: at_once(lambda: replies.append(raw.signal("go", key="k"))))
        thread.start()
        wait_until_it_waits(postgres, thread)
        assert thread.is_alive()
        record = raw.record()
        renewal = Renewal(record.id, record.fence, 2 * LEASE, None, None)
        assert [renewed.held for renewed in raw.do(raw.tasks.task_renew([renewal]))] == [True]
        wake_at = raw.record().wake_at
        assert record.wake_at is not None
        assert wake_at is not None
        assert wake_at > record.wake_at, "it was really written"
        assert raw.commit(ending="enter") is not None
        end.set()
        thread.join(20)
    assert [reply.answered for reply in replies] == ["stored", "known"]


# -- the stale worker -------------------------------------------------------------------------------------------------

CALL = CallLine("search", 1, b"a" * 32, "null")


@ended
@pytest.mark.usefixtures("undurable")
def test_a_stale_worker_writes_no_call_though_it_waited_for_the_row(raw: Raw, commit: bool) -> None:
    raw.start()
    raw.claim()
    stale = raw.at()
    raw.bench.age(61)
    wrote = one_then_other(raw, lambda: raw.claim(), lambda: raw.tasks.task_journal(stale, CALL).run(), commit=commit)
    assert wrote is not commit
    lines = raw.do(raw.tasks.task_lines(stale.task, 0, 10))
    assert [line.number for line in lines] == ([] if commit else [1])


@pytest.mark.usefixtures("undurable")
def test_a_call_that_was_written_before_the_take_over_is_there_after_it(raw: Raw) -> None:
    raw.start()
    raw.claim()
    at = raw.at()
    raw.bench.age(61)
    grant = one_then_other(
        raw,
        lambda: raw.tasks.task_journal(at, CALL).run(),
        lambda: raw.tasks.task_claim(at, "another", LEASE, enter=True, calls=0).run(),
    )
    assert grant is not None
    assert raw.do(raw.tasks.task_calls(at.task, at.save_seq)) == [CALL]


@ended
@pytest.mark.usefixtures("undurable")
def test_a_stale_commit_writes_no_items_though_it_waited_for_the_row(raw: Raw, commit: bool) -> None:
    raw.start()
    raw.claim()
    stale = raw.at()
    raw.bench.age(61)
    save = replace(SAVE, items=(Item("log", "1"), Item("log", "2")))
    committed = one_then_other(
        raw, lambda: raw.claim(), lambda: raw.tasks.task_commit(stale, save).run(), commit=commit
    )
    assert (committed is None) is commit
    assert raw.do(raw.tasks.task_items(stale.task, "log")) == ([] if commit else ["1", "2"])
    assert raw.record().save_seq == (0 if commit else 1)


@ended
@pytest.mark.usefixtures("undurable")
def test_a_repair_beside_a_claim_comes_too_late(raw: Raw, commit: bool) -> None:
    raw.start()
    at = raw.at()
    repair = Repair("retry_now", "ann", "null", None)
    repaired = one_then_other(raw, lambda: raw.claim(), lambda: raw.tasks.task_repair(at, repair).run(), commit=commit)
    assert repaired is not commit


# -- what a caller's transaction stored -------------------------------------------------------------------------------


@ended
def test_a_stored_grant_is_applied_once_though_two_apply_it(
    raw: Raw, commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = raw.start()
    grant = Request("grant", limits=Limits(attempts=5))
    with open_transaction(raw.bench.store, lambda: raw.request(grant), commit=True) as end:
        end.set()
    monkeypatch.setattr(Database, "in_test_case", True)
    entry = raw.entry()

    def apply() -> Reply:
        return raw.tasks.task_apply_requests(entry, None).run()

    assert one_then_other(raw, apply, apply, commit=commit).answered == "applied"
    assert raw.record().max_attempts == before.max_attempts + 5
    assert [letter.seq for letter in raw.do(raw.tasks.task_letters(before.id))] == [1]


@ended
@pytest.mark.usefixtures("undurable")
def test_a_fork_beside_the_purge_of_its_source_takes_over_all_or_finds_it_gone(raw: Raw, commit: bool) -> None:
    raw.start()
    raw.claim()
    raw.commit(ending="completed", items=(Item("log", "1"),))
    source = raw.record().id
    raw.bench.age(100 * 86_400)
    forking = raw.tasks.task_fork(raw.new("fork"), Fork(source, through=1, next_index=0))

    def fork() -> bool:
        try:
            return forking.run()
        except TaskNotFound:
            return False

    forked = one_then_other(raw, lambda: purge(raw.bench.alias), fork, commit=commit)
    assert forked is not commit
    assert (raw.do(raw.tasks.task_read(raw.entry("fork"))) is None) is commit
    if not commit:
        assert raw.do(raw.tasks.task_items(raw.record("fork").id, "log")) == ["1"]


@pytest.mark.usefixtures("undurable")
def test_a_purge_beside_a_fork_waits_until_all_is_copied(raw: Raw) -> None:
    raw.start()
    raw.claim()
    raw.commit(ending="completed", items=(Item("log", "1"),))
    source = raw.record().id
    raw.bench.age(100 * 86_400)
    fork = raw.tasks.task_fork(raw.new("fork"), Fork(source, through=1, next_index=0))
    one_then_other(raw, fork.run, lambda: purge(raw.bench.alias))
    assert raw.do(raw.tasks.task_items(raw.record("fork").id, "log")) == ["1"]
    assert raw.do(raw.tasks.task_history(source)) == []
