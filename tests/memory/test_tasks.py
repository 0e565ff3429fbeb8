"""What memory keeps of durable tasks goes with them, is found again after a break, and is refused what it cannot do."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from django_statestore import Store
from django_statestore.backends.memory import MemoryBackend, taskindex
from django_statestore.backends.memory.agenda import Agenda
from django_statestore.contracts.history import Fork
from django_statestore.contracts.journal import CallLine
from django_statestore.contracts.mailbox import Request
from django_statestore.contracts.position import Position
from django_statestore.exceptions import NotSupported
from django_statestore.testing import age
from tests.memory.calls import LEASE, a_save, new
from tests.memory.sides import Side
from tests.memory.test_growth import weight


@pytest.fixture
def side(here: Store) -> Side:
    return Side(here.namespace("tasks"))


def entered(side: Side, key: str) -> Position:
    """Start a task and enter its first step; return where the lease stands."""
    assert side.engine.task_start(new(side, key)).run()
    at = side.at(key, 0)
    assert at is not None
    grant = side.engine.task_claim(at, "w", LEASE, enter=True, calls=0).run()
    return Position(at.task, grant.fence, at.save_seq)


def finish(side: Side, key: str) -> None:
    """Live through a task that is signalled, calls, appends, keeps a spool, and is forked."""
    at = entered(side, key)
    side.store.spool.write_for_task(at.task, "facts", b"facts", "facts")
    for number in range(5):
        side.engine.task_request(side.entry(key), Request("signal", "go", key=f"k{number}")).run()
        side.engine.task_journal(at, CallLine("call", number, b"a" * 32, "1")).run()
    assert side.engine.task_fork(new(side, f"{key}-fork"), Fork(at.task, 9, 0)).run()
    assert side.engine.task_commit(at, a_save("completed", 0, 0, 0, 5)).run().status == "completed"


def end_fork(side: Side, key: str) -> None:
    side.engine.task_request(side.entry(f"{key}-fork"), Request("cancel", "over")).run()
    at = side.at(f"{key}-fork", 0)
    assert at is not None
    assert side.engine.task_cancel(at, "over").run()


def test_mailbox_journal_and_saves_go_with_their_task(
    side: Side, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taskindex, "IDLE", 20)
    with override_settings(STATESTORE={"RETAIN_FINISHED": 0.001, "SPOOL_GRACE": 0.001}):
        early = 0
        for number in range(400):
            finish(side, f"t{number}")
            end_fork(side, f"t{number}")
            backend.spool_purge_dropped(1, 10).run()
            early = weight(backend) if number == 100 else early
        assert weight(backend) < early + 1000, "300 more would be told by many thousand objects"


def test_a_letter_is_gone_with_its_task(side: Side, backend: MemoryBackend) -> None:
    finish(side, "t")
    record = side.record("t")
    assert record is not None
    mail = side.letter("t", "go")
    assert backend.task_letter(mail or 0).run() is not None
    age(side.store, 1)
    assert backend.tasks_purge(500, 10).run() == 1
    assert backend.task_letter(mail or 0).run() is None
    assert backend.task_mail(record.id, "go").run() is None
    assert backend.task_look(record.id, "go").run() == (0, False)
    assert [backend.task_lines(record.id, 0, 9).run(), backend.task_letters(record.id).run()] == [[], []]


def test_a_fork_keeps_the_spools_of_its_source_when_that_is_gone(side: Side, backend: MemoryBackend) -> None:
    finish(side, "t")
    fork = side.record("t-fork")
    assert fork is not None
    ref = backend.memory.blobs.used_by(fork.id)
    assert [blob.call_id for blob in ref] == ["facts"]
    age(side.store, 60)
    assert backend.tasks_purge(1, 10).run() == 1
    assert backend.spool_purge_dropped(1, 10).run() == 0
    end_fork(side, "t")
    age(side.store, 60)
    assert backend.tasks_purge(1, 10).run() == 1
    assert backend.spool_purge_dropped(1, 10).run() == 1


def test_no_time_stands_still_when_it_passes(side: Side, backend: MemoryBackend) -> None:
    finish(side, "t")
    age(side.store, 1000)
    record = side.record("t")
    assert record is not None
    lines, letters = backend.task_lines(record.id, 0, 99).run(), backend.task_letters(record.id).run()
    times = [*(line.created_at for line in lines), *(letter.sent_at for letter in letters)]
    times += [save.saved_at for save in backend.task_history(record.id).run()]
    assert len(times) == 17
    assert {round((record.now - at).total_seconds(), -1) for at in times} == {1000}


def test_an_atomic_step_is_refused_with_the_remedy(side: Side) -> None:
    at = entered(side, "t")
    with pytest.raises(NotSupported, match=r"memory takes part in no transaction.*DatabaseBackend"):
        side.engine.task_atomic(at, lambda: a_save("completed")).run()
    record = side.record("t")
    assert record is not None
    assert (record.status, record.save_seq) == ("running", 0)


def test_tasks_and_requests_are_found_again_whatever_was_broken_off(
    side: Side, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Ctrl-C in a notebook: it may come in the middle of a start or of a purge."""
    put, left = Agenda.put, 0

    def broken(self: Any, key: Any, number: int | None) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        put(self, key, number)

    monkeypatch.setattr(Agenda, "put", broken)
    for point in range(1, 40):
        left = point
        try:
            finish(side, f"t{point}")
            age(side.store, 60)
            backend.tasks_purge(1, 1).run()
        except KeyboardInterrupt:
            pass
        left = 0
        rows, due = backend.memory.tasks.within(side.namespace), set()
        for row in rows:
            record = side.record(row.key)
            assert record is not None
            due |= {row.key} if record.due else set()
            assert all(backend.task_letter(mail.id).run() for mail in row.mailbox if mail.kind == "signal")
        assert {each.key for each in backend.tasks_due(["tasks"], 999).run()} == due
    age(side.store, 60)
    finished = sum(not row.open for row in backend.memory.tasks.within(side.namespace))
    assert backend.tasks_purge(1, 999).run() == finished > 0
