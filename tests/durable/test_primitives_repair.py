"""What an operator may do to a task that nobody holds, and the line that the journal keeps of it."""

from typing import Any

import pytest

from django_statestore.contracts.history import Repair, RepairSave
from django_statestore.contracts.tasks import Failure, Wait
from tests.durable.raw import HOUR, Raw, raw

__all__ = ["raw"]


def repair(raw: Raw, action: Any = "retry_now", notify: int | None = None, save: RepairSave | None = None) -> bool:
    return raw.do(raw.tasks.task_repair(raw.at(), Repair(action, "ann", '"note"', notify, save)))


def saving(**changes: Any) -> RepairSave:
    save: dict[str, Any] = {
        "state": '"repaired"',
        "step": "first",
        "next_index": 1,
        "status": "ready",
        "outcome": "marked",
        "definition": "raw2",
        "revision": "2",
        "fingerprint": "print2",
    }
    return RepairSave(**(save | changes))


def fail(raw: Raw, backoff: int = 600_000) -> None:
    failure = Failure("error", backoff, False, "", "", keep_claims=False, notify=None)
    assert raw.do(raw.tasks.task_fail(raw.at(), failure)) == "running"


def parked(raw: Raw, reason: str = "attempts_exhausted") -> None:
    raw.start()
    raw.claim()
    assert raw.do(raw.tasks.task_park(raw.at(), reason))


def test_a_parked_task_goes_on_and_the_journal_says_who_let_it(raw: Raw) -> None:
    parked(raw)
    before = raw.record()
    assert repair(raw)
    after = raw.record()
    assert (after.status, after.reason, after.claims, after.worker, after.due) == ("running", "", 0, "", True)
    assert after.fence > before.fence
    assert after.mismatch_since is None
    assert raw.claim() is not None
    lines = raw.do(raw.tasks.task_lines(after.id, 0, 100))
    shown = [(line.number, line.kind, line.name, line.value, line.sender, line.save_seq) for line in lines]
    assert shown == [(1, "repair", "retry_now", '"note"', "ann", 0)]


def test_a_back_off_is_cut_short(raw: Raw) -> None:
    raw.start()
    raw.claim()
    fail(raw)
    assert not raw.record().due
    assert repair(raw)
    record = raw.record()
    assert (record.resume_at, record.due) == (None, True)
    assert raw.claim() is not None


@pytest.mark.parametrize("wait", [Wait(600_000), Wait(600_000, "go"), Wait(None, "go")], ids=repr)
def test_a_sleep_or_wait_is_not_cut_short(raw: Raw, wait: Wait) -> None:
    raw.start()
    before = raw.wait(wait=wait)
    assert repair(raw)
    after = raw.record()
    assert (after.wake_at, after.resume_at, after.waiting_for) == (before.wake_at, before.resume_at, wait.name)
    assert after.fence > before.fence


def test_a_wait_that_was_parked_with_its_signal_is_due(raw: Raw) -> None:
    raw.start()
    raw.wait()
    raw.signal()
    raw.do(raw.tasks.task_park(raw.at(), "attempts_exhausted"))
    assert repair(raw)
    assert raw.record().due
    assert raw.claim(waking=raw.waking()) is not None


def test_mark_not_done_makes_an_interrupted_step_ready(raw: Raw) -> None:
    parked(raw, "reconcile_unknown")
    assert repair(raw, "mark_not_done")
    record = raw.record()
    assert (record.status, record.reason, record.due) == ("ready", "", True)
    assert raw.claim() is not None


def test_mark_not_done_cuts_the_back_off_of_its_step_short(raw: Raw) -> None:
    raw.start()
    raw.claim()
    fail(raw)
    assert repair(raw, "mark_not_done")
    assert (raw.record().status, raw.record().due) == ("ready", True)


def test_mark_done_saves_a_state_and_moves_on(raw: Raw) -> None:
    parked(raw, "reconcile_unknown")
    before = raw.record()
    assert repair(raw, "mark_done", save=saving())
    after = raw.record()
    assert (after.status, after.step_index, after.turn, after.state) == ("ready", 1, 1, '"repaired"')
    assert (after.definition, after.revision, after.fingerprint) == ("raw2", "2", "print2")
    assert (after.save_seq, after.attempts, after.saved_attempts) == (before.save_seq + 1, before.attempts, 1)
    assert after.due
    history = raw.do(raw.tasks.task_history(after.id))
    assert [(saved.save, saved.step, saved.outcome, saved.next_index, saved.size) for saved in history] == [
        (0, "", "started", 0, 5),
        (1, "first", "marked", 1, 10),
    ]
    lines = raw.do(raw.tasks.task_lines(after.id, 0, 100))
    assert [(line.name, line.save_seq) for line in lines] == [("mark_done", 1)]
    assert raw.claim() is not None


def test_mark_done_of_the_last_step_completes(raw: Raw) -> None:
    parked(raw)
    assert repair(raw, "mark_done", notify=1000, save=saving(status="completed"))
    record = raw.record()
    assert (record.status, record.reason, record.wake_at) == ("completed", "", None)
    assert record.finished_at is not None


def test_a_save_that_moves_the_task_ends_its_wait_and_what_it_received(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000, "go", spec="{}"))
    assert repair(raw, "migrate", save=saving())
    record = raw.record()
    assert (record.waiting_for, record.wait_spec, record.resume_at, record.due) == ("", "", None, True)
    raw.claim()
    raw.commit(ending="wait", wait=Wait(None, "go"))
    raw.signal()
    raw.claim(waking=raw.waking())
    assert raw.record().received is not None
    raw.bench.age(61)
    assert repair(raw, "migrate", save=saving(status="running"))
    assert (raw.record().received, raw.record().status) == (None, "running")


def test_a_save_that_keeps_the_turn_keeps_the_wait(raw: Raw) -> None:
    raw.start()
    before = raw.wait(wait=Wait(600_000, "go", spec="{}"), next_turn=4)
    assert repair(raw, "migrate", save=saving(next_index=before.step_index, keeps_turn=True))
    after = raw.record()
    assert (after.waiting_for, after.wait_spec, after.turn, after.state) == ("go", "{}", 4, '"repaired"')
    assert (after.wake_at, after.resume_at) == (before.wake_at, before.resume_at)
    assert after.save_seq == before.save_seq + 1


def test_the_sweep_trusts_the_message_of_the_repair_and_sends_its_own_where_there_is_none(raw: Raw) -> None:
    parked(raw)
    task = raw.record().id
    assert repair(raw, notify=HOUR)
    assert task not in [due.id for due in raw.do(raw.tasks.tasks_notify(["print"], 1000, 1000))]
    assert repair(raw)
    assert task in [due.id for due in raw.do(raw.tasks.tasks_notify(["print"], 1000, 1000))]


@pytest.mark.parametrize("action", ["retry_now", "mark_not_done"])
def test_a_repair_of_a_held_ended_or_changed_task_writes_nothing(raw: Raw, action: str) -> None:
    raw.start()
    stale = raw.at()
    raw.claim()
    everything = raw.bench.rows.everything
    held = everything("t")
    assert not repair(raw, action)
    assert everything("t") == held, "it is held"
    assert not raw.do(raw.tasks.task_repair(stale, Repair(action, "", "null", None, saving())))  # type: ignore[arg-type]
    assert everything("t") == held, "it has changed"
    raw.commit(ending="completed")
    ended = everything("t")
    assert not repair(raw, action, save=saving())
    assert everything("t") == ended, "it has ended"


def test_a_lapsed_lease_is_let_go(raw: Raw) -> None:
    raw.start()
    raw.claim()
    at = raw.at()
    raw.bench.age(61)
    assert repair(raw)
    assert raw.record().worker == ""
    failure = Failure("late", 1000, False, "", "", keep_claims=False, notify=None)
    assert raw.do(raw.tasks.task_fail(at, failure)) is None
