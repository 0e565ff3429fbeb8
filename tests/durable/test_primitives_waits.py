"""How a row sleeps, waits for a signal and wakes, decided by its columns and the store's clock alone."""

import pytest

from django_statestore.contracts.tasks import Wait, Waking
from tests.durable.raw import HOUR, Raw, raw

__all__ = ["raw"]

DAY = 86_400_000


def seconds_until(raw: Raw, name: str = "wake_at") -> float:
    record = raw.record()
    at = getattr(record, name)
    assert at is not None, f"{name} is not set"
    return float((at - record.now).total_seconds())


def test_a_start_with_a_time_is_due_then_and_not_before(raw: Raw) -> None:
    now = raw.start("other").now
    record = raw.start(not_before=int(now.timestamp() * 1000) + 600_000)
    assert not record.due
    assert 590 < seconds_until(raw) <= 600
    assert record.resume_at == record.wake_at
    assert raw.claim() is None
    raw.bench.age(601)
    assert raw.claim() is not None


def test_a_start_with_a_time_beyond_the_deadline_is_due_at_the_deadline(raw: Raw) -> None:
    now = raw.start("other").now
    record = raw.start(not_before=int(now.timestamp() * 1000) + 2 * HOUR)
    assert record.wake_at == record.deadline


def test_a_sleep_lets_go_and_is_due_at_its_end(raw: Raw) -> None:
    first = raw.start()
    record = raw.wait(wait=Wait(600_000))
    assert (record.status, record.worker, record.waiting_for, record.step_index) == ("ready", "", "", 1)
    assert record.fence > first.fence
    assert record.resume_at == record.wake_at
    assert 590 < seconds_until(raw) <= 600
    assert record.restful
    assert raw.claim() is None
    raw.bench.age(601)
    assert raw.claim() is not None
    assert raw.record().resume_at is None


def test_a_sleep_beyond_the_deadline_is_due_at_the_deadline(raw: Raw) -> None:
    raw.start()
    record = raw.wait(wait=Wait(2 * HOUR))
    assert record.wake_at == record.deadline
    assert record.resume_at is not None
    assert record.resume_at > record.deadline  # type: ignore[operator]


def test_a_wait_without_a_time_out_is_due_at_the_deadline(raw: Raw) -> None:
    raw.start()
    record = raw.wait(wait=Wait(None, "go", spec='{"form":""}'))
    assert (record.waiting_for, record.wait_spec, record.resume_at) == ("go", '{"form":""}', None)
    assert record.wake_at == record.deadline
    assert not record.restful, "its mailbox tells"


def test_a_waiting_task_is_not_claimed_without_saying_what_woke_it(raw: Raw) -> None:
    raw.start()
    raw.wait()
    assert raw.signal().woken
    assert raw.record().due
    assert raw.claim() is None
    assert raw.claim(waking=raw.waking()) is not None


def test_a_signal_ends_the_wait_and_is_received_and_used(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000, "go", spec="{}"))
    raw.signal("go", '"yes"', sender="ann")
    waking = raw.waking()
    assert waking.received is not None
    assert raw.claim(waking=waking) is not None
    record = raw.record()
    assert (record.status, record.waiting_for, record.wait_spec, record.resume_at) == ("running", "", "", None)
    assert record.received == waking.received
    assert raw.mail() is None
    letter = raw.do(raw.tasks.task_letter(waking.received))
    assert letter is not None
    assert (letter.name, letter.payload, letter.sender) == ("go", '"yes"', "ann")
    assert [shown.used_at is not None for shown in raw.do(raw.tasks.task_letters(record.id))] == [True]


def test_what_was_received_outlives_a_crash_and_ends_with_the_next_save(raw: Raw) -> None:
    raw.start()
    raw.wait()
    raw.signal()
    raw.claim(waking=raw.waking())
    received = raw.record().received
    raw.bench.age(61)
    assert raw.claim() is not None
    assert raw.record().received == received is not None
    raw.commit()
    assert raw.record().received is None


def test_a_time_out_ends_the_wait_with_nothing_received(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000, "go"))
    assert raw.claim(waking=Waking(0, None)) is None, "it is not over yet"
    raw.bench.age(601)
    assert raw.record().timed_out
    assert raw.claim(waking=Waking(0, None)) is not None
    record = raw.record()
    assert (record.received, record.waiting_for) == (None, "")


def test_a_claim_of_a_time_out_never_beats_a_signal_that_was_acknowledged(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000, "go"))
    raw.bench.age(601)
    looked = raw.waking()
    assert raw.signal().answered == "applied"
    assert raw.claim(waking=looked) is None
    again = raw.waking()
    assert again.received is not None
    assert raw.claim(waking=again) is not None


def test_a_wait_for_a_signal_that_came_since_its_worker_looked_is_due_at_once(raw: Raw) -> None:
    raw.start()
    raw.claim()
    seen, found = raw.look()
    assert (seen, found) == (0, False)
    raw.signal()
    assert raw.commit(ending="wait", wait=Wait(None, "go", seen=seen)) is not None
    record = raw.record()
    assert record.due
    assert record.waiting_for == "go"
    assert raw.claim(waking=raw.waking()) is not None


def test_a_wait_whose_worker_saw_all_that_came_is_not_due(raw: Raw) -> None:
    raw.start()
    raw.signal("other")
    raw.claim()
    seen, found = raw.look()
    assert (seen, found) == (1, False)
    raw.commit(ending="wait", wait=Wait(None, "go", seen=seen))
    assert not raw.record().due


def test_a_sleep_does_not_mind_signals(raw: Raw) -> None:
    raw.start()
    raw.claim()
    raw.signal()
    raw.commit(ending="wait", wait=Wait(600_000))
    assert not raw.record().due
    assert not raw.signal().woken
    assert not raw.record().due


def test_a_spurious_wake_waits_on_to_the_same_time_without_an_attempt(raw: Raw) -> None:
    raw.start()
    raw.claim()
    raw.signal("other")
    raw.commit(ending="wait", wait=Wait(600_000, "go", seen=0))
    before = raw.record()
    assert before.due
    assert raw.do(raw.tasks.task_wait_again(raw.at(), before.signal_seq))
    after = raw.record()
    assert not after.due
    assert after.wake_at == after.resume_at == before.resume_at
    assert (after.attempts, after.claims, after.waiting_for) == (before.attempts, before.claims, "go")
    assert after.fence > before.fence


def test_a_task_does_not_wait_on_if_more_was_asked_of_it(raw: Raw) -> None:
    raw.start()
    raw.wait()
    looked = raw.record()
    at = raw.at()
    raw.signal()
    assert not raw.do(raw.tasks.task_wait_again(at, looked.signal_seq))
    assert raw.record().due


def test_a_task_that_is_to_be_cancelled_does_not_wait_on(raw: Raw) -> None:
    raw.start()
    raw.wait()
    raw.cancel()
    assert not raw.do(raw.tasks.task_wait_again(raw.at(), raw.record().signal_seq))


@pytest.mark.parametrize("wait", [Wait(600_000), Wait(None, "go")], ids=["sleep", "wait"])
def test_a_task_that_is_cancelled_or_overdue_does_not_begin_to_wait(raw: Raw, wait: Wait) -> None:
    raw.start()
    raw.claim()
    raw.cancel("enough")
    committed = raw.commit(ending="wait", wait=wait)
    assert committed is not None
    assert (committed.status, committed.reason) == ("cancelled", "enough")
    record = raw.record()
    assert (record.waiting_for, record.wake_at, record.resume_at) == ("", None, None)
    raw.start("late")
    raw.claim("late")
    raw.bench.age(3601)
    committed = raw.commit("late", ending="wait", wait=wait)
    assert committed is not None
    assert (committed.status, committed.reason) == ("cancelled", "deadline_passed")


def test_a_last_wait_that_is_cancelled_or_overdue_has_completed(raw: Raw) -> None:
    raw.start()
    raw.claim()
    raw.cancel()
    committed = raw.commit(ending="wait", wait=Wait(None, "go"), last=True)
    assert committed is not None
    assert (committed.status, committed.reason) == ("completed", "")
    assert raw.record().finished_at is not None


def test_a_last_sleep_completes_at_its_end_and_not_before(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000), last=True)
    assert not raw.do(raw.tasks.task_complete(raw.at(), None))
    raw.bench.age(601)
    assert raw.do(raw.tasks.task_complete(raw.at(), None))
    record = raw.record()
    assert (record.status, record.reason, record.wake_at, record.attempts) == ("completed", "", None, 1)
    assert record.finished_at is not None


def test_a_last_sleep_completes_at_the_deadline(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(2 * HOUR), last=True)
    raw.bench.age(3601)
    assert raw.do(raw.tasks.task_complete(raw.at(), None))
    assert raw.record().status == "completed"


def test_a_last_wait_completes_by_its_signal_which_is_used(raw: Raw) -> None:
    raw.start()
    raw.wait(last=True)
    assert not raw.do(raw.tasks.task_complete(raw.at(), None)), "it waits"
    assert not raw.do(raw.tasks.task_complete(raw.at(), Waking(0, None))), "it has not timed out"
    raw.signal()
    stale = Waking(0, raw.waking().received)
    assert not raw.do(raw.tasks.task_complete(raw.at(), stale)), "more was asked than was seen"
    assert raw.do(raw.tasks.task_complete(raw.at(), raw.waking()))
    record = raw.record()
    assert (record.status, record.waiting_for) == ("completed", "")
    assert raw.mail() is None


def test_a_last_wait_completes_when_it_has_timed_out(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000, "go"), last=True)
    raw.bench.age(601)
    assert raw.do(raw.tasks.task_complete(raw.at(), Waking(0, None)))
    assert raw.record().status == "completed"


def test_the_sweep_trusts_the_message_that_the_worker_of_a_sleep_sent(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(1000), notify=HOUR // 2)
    raw.bench.age(2)
    assert raw.do(raw.tasks.tasks_notify(["print"], 60_000, 100)) == []
    raw.bench.age(HOUR // 2000)
    found = raw.do(raw.tasks.tasks_notify(["print"], 60_000, 1000))
    assert raw.record().id in [due.id for due in found]


def test_a_parked_wait_waits_on_to_the_same_time_when_it_goes_on(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000, "go"))
    raw.signal("go")
    resume_at = raw.record().resume_at
    assert raw.do(raw.tasks.task_park(raw.at(), "attempts_exhausted"))
    record = raw.record()
    assert (record.waiting_for, record.wake_at, record.resume_at) == ("go", None, resume_at)
    assert not raw.signal("go").woken, "it is parked"
    assert raw.record().wake_at is None
    raw.grant(attempts=1)
    assert raw.record().due, "its signals are there"
    assert raw.claim(waking=raw.waking()) is not None


@pytest.mark.parametrize("wait", [Wait(600_000), Wait(600_000, "go")], ids=["sleep", "wait"])
def test_a_lease_of_the_contract_cuts_no_sleep_or_wait_short(raw: Raw, wait: Wait) -> None:
    raw.start()
    before = raw.wait(wait=wait)
    with raw.bench.store.durable.exclusive("t"):
        assert raw.record().leased
    after = raw.record()
    assert (after.wake_at, after.waiting_for, after.worker) == (before.wake_at, wait.name, "")


def test_a_signal_that_came_during_a_lease_of_the_contract_wakes_the_task_at_its_end(raw: Raw) -> None:
    raw.start()
    raw.wait()
    with raw.bench.store.durable.exclusive("t"):
        assert not raw.signal().woken
        assert raw.record().leased
    assert raw.record().due
    assert raw.claim(waking=raw.waking()) is not None


def test_a_cancel_that_came_during_a_lease_of_the_contract_is_due_at_its_end(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000))
    with raw.bench.store.durable.exclusive("t"):
        raw.cancel()
    assert raw.record().due


def test_a_wait_ends_with_its_task(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000, "go"))
    raw.cancel()
    assert raw.do(raw.tasks.task_cancel(raw.at(), "enough"))
    record = raw.record()
    assert (record.status, record.waiting_for, record.resume_at) == ("cancelled", "", None)
