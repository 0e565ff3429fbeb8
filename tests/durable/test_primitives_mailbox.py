"""Requests to a task: kept, applied once, in their order, and told apart from what comes too late."""

import pytest

from django_statestore import codec
from django_statestore.contracts.mailbox import Reply, Request
from django_statestore.contracts.tasks import Wait
from tests.durable.raw import HOUR, Raw, raw

__all__ = ["raw"]


def repairs(raw: Raw) -> list[tuple[str, object, str]]:
    """Return (name, value, sender) of the journal's lines about what was done to the task."""
    lines = raw.do(raw.tasks.task_lines(raw.record().id, 0, 100))
    return [(line.name, codec.loads(line.value), line.sender) for line in lines if line.kind == "repair"]


# -- signals ----------------------------------------------------------------------------------------------------------


def test_a_signal_is_kept_and_found_before_anybody_waits_for_it(raw: Raw) -> None:
    task = raw.start().id
    assert raw.look() == (0, False)
    assert raw.signal("go", '{"ok":true}', sender="ann") == Reply("applied", task, woken=False)
    assert raw.look() == (1, True)
    mail = raw.mail()
    assert mail is not None
    assert (mail.name, mail.payload, mail.sender) == ("go", '{"ok":true}', "ann")
    assert mail == raw.do(raw.tasks.task_letter(mail.id))
    assert abs((raw.record().now - mail.sent_at).total_seconds()) < 60


def test_signals_of_a_name_are_first_in_first_out_and_given_once(raw: Raw) -> None:
    raw.start()
    for number in range(3):
        raw.signal("go", str(number))
        raw.signal("other", "null")
    taken = []
    for _ in range(3):
        raw.wait(wait=Wait(None, "go"))
        waking = raw.waking()
        assert waking.received is not None
        letter = raw.do(raw.tasks.task_letter(waking.received))
        assert letter is not None
        taken.append(letter.payload)
        assert raw.claim(waking=waking) is not None
        assert raw.commit() is not None
    assert taken == ["0", "1", "2"]
    assert raw.mail() is None
    assert raw.look() == (6, False)


def test_only_the_name_that_is_waited_for_wakes(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(None, "go"))
    assert not raw.signal("other").woken
    assert not raw.record().due
    assert raw.signal("go").woken
    assert raw.record().due


def test_a_signal_to_a_task_that_runs_or_sleeps_moves_nothing(raw: Raw) -> None:
    raw.start()
    raw.claim()
    before = raw.record()
    assert not raw.signal().woken
    after = raw.record()
    assert (after.wake_at, after.fence, after.worker) == (before.wake_at, before.fence, "worker")
    assert after.signal_seq == before.signal_seq + 1


def test_the_sweep_trusts_the_message_of_who_sent_the_signal(raw: Raw) -> None:
    task = raw.start().id
    raw.wait()
    assert raw.signal(notify=600_000).woken
    assert task not in [due.id for due in raw.do(raw.tasks.tasks_notify(["print"], 1000, 1000))]
    raw.bench.age(601)
    assert task in [due.id for due in raw.do(raw.tasks.tasks_notify(["print"], 1000, 1000))]


def test_a_signal_without_a_message_is_left_to_the_sweep(raw: Raw) -> None:
    task = raw.start(notify=HOUR).id
    raw.wait(notify=HOUR)
    assert raw.signal().woken
    assert task in [due.id for due in raw.do(raw.tasks.tasks_notify(["print"], 1000, 1000))]


# -- one key, one request ---------------------------------------------------------------------------------------------


def test_a_known_key_changes_nothing_at_all(raw: Raw) -> None:
    task = raw.start().id
    raw.wait()
    assert raw.signal("go", "1", key="k").answered == "applied"
    before = raw.bench.rows.everything("t")
    assert raw.signal("go", "2", key="k") == Reply("known", task)
    assert raw.cancel(key="k") == Reply("known", task)
    assert raw.request(Request("grant", key="k")) == Reply("known", task)
    assert raw.bench.rows.everything("t") == before
    mail = raw.mail()
    assert mail is not None
    assert mail.payload == "1"


def test_a_key_is_known_when_its_signal_was_used(raw: Raw) -> None:
    raw.start()
    raw.wait()
    raw.signal(key="k")
    raw.claim(waking=raw.waking())
    assert raw.signal(key="k").answered == "known"
    assert raw.mail() is None


def test_a_key_is_its_own_tasks_and_none_is_no_key(raw: Raw) -> None:
    raw.start()
    raw.start("other")
    assert raw.signal(key="k").answered == "applied"
    assert raw.signal(key="k", task_id="other").answered == "applied"
    assert raw.signal().answered == raw.signal().answered == "applied"
    assert len(raw.bench.rows.requests("t")) == 3


# -- cancel -----------------------------------------------------------------------------------------------------------


def test_a_cancel_is_noted_with_its_sender_and_its_first_reason_stays(raw: Raw) -> None:
    raw.start()
    assert raw.cancel("enough", sender="ann").answered == "applied"
    raw.cancel("more", sender="bob")
    assert raw.record().cancel_requested == "enough"
    assert repairs(raw) == [("cancel", "enough", "ann"), ("cancel", "more", "bob")]


def test_a_cancel_makes_a_task_due_that_nobody_holds(raw: Raw) -> None:
    raw.start()
    raw.wait(wait=Wait(600_000, "go"))
    assert not raw.record().due
    raw.cancel()
    assert raw.record().due
    assert raw.do(raw.tasks.task_cancel(raw.at(), "enough"))


def test_a_cancel_leaves_a_living_lease_alone(raw: Raw) -> None:
    raw.start()
    raw.claim()
    before = raw.record()
    assert not raw.cancel().woken
    after = raw.record()
    assert (after.fence, after.worker, after.wake_at) == (before.fence, before.worker, before.wake_at)
    committed = raw.commit(ending="enter")
    assert committed is not None
    assert (committed.status, committed.reason) == ("cancelled", "enough")


def test_a_parked_task_is_made_due_by_a_cancel_and_claimed_by_nobody(raw: Raw) -> None:
    raw.start()
    raw.do(raw.tasks.task_park(raw.at(), "crash_loop"))
    raw.cancel()
    assert raw.record().due
    assert raw.claim() is None
    assert raw.do(raw.tasks.task_cancel(raw.at(), "enough"))


# -- grants -----------------------------------------------------------------------------------------------------------


def test_a_grant_adds_to_the_limits_and_is_noted(raw: Raw) -> None:
    before = raw.start(max_attempts=2, max_calls=10)
    assert raw.grant(attempts=3, model_calls=5, deadline=2 * HOUR, sender="ann").answered == "applied"
    after = raw.record()
    assert (after.max_attempts, after.max_calls) == (5, 15)
    assert before.deadline is not None
    assert after.deadline is not None
    assert 3590 < (after.deadline - before.deadline).total_seconds() < 3660
    assert repairs(raw) == [("grant", {"attempts": 3, "model_calls": 5, "deadline": 2 * HOUR}, "ann")]


def test_a_grant_makes_no_deadline_earlier_and_no_budget_where_there_is_none(raw: Raw) -> None:
    before = raw.start()
    raw.grant(model_calls=5, deadline=1000)
    after = raw.record()
    assert (after.deadline, after.max_calls) == (before.deadline, None)
    raw.grant(attempts=1)
    assert raw.record().deadline == before.deadline


def test_a_grant_beside_a_living_lease_adds_only_to_the_limits(raw: Raw) -> None:
    raw.start()
    raw.claim()
    before = raw.record()
    assert not raw.grant(attempts=1).woken
    after = raw.record()
    assert (after.fence, after.worker, after.claims, after.wake_at) == (before.fence, "worker", 1, before.wake_at)
    assert after.max_attempts == before.max_attempts + 1


def test_a_grant_unparks_and_says_so(raw: Raw) -> None:
    task = raw.start().id
    raw.do(raw.tasks.task_park(raw.at(), "attempts_exhausted"))
    before = raw.record()
    assert before.parked
    assert raw.grant(notify=600_000, attempts=1) == Reply("applied", task, woken=True)
    after = raw.record()
    assert (after.reason, after.claims, after.due) == ("", 0, True)
    assert after.fence > before.fence
    assert task not in [due.id for due in raw.do(raw.tasks.tasks_notify(["print"], 1000, 1000))]
    assert raw.claim() is not None


def test_a_grant_cuts_no_sleep_or_back_off_short_but_carries_it_past_the_old_deadline(raw: Raw) -> None:
    raw.start()
    before = raw.wait(wait=Wait(2 * HOUR))
    assert before.wake_at == before.deadline
    assert not raw.grant(deadline=3 * HOUR).woken
    after = raw.record()
    assert after.wake_at == after.resume_at == before.resume_at


def test_a_grant_wakes_no_waiting_task(raw: Raw) -> None:
    raw.start()
    before = raw.wait(wait=Wait(600_000, "go"))
    assert not raw.grant(attempts=1).woken
    after = raw.record()
    assert (after.wake_at, after.waiting_for) == (before.wake_at, "go")
    assert raw.signal().woken


def test_a_grant_to_a_parked_task_that_waits_lets_it_wait(raw: Raw) -> None:
    raw.start()
    before = raw.wait(wait=Wait(600_000, "go"))
    raw.do(raw.tasks.task_park(raw.at(), "diverged"))
    raw.grant()
    after = raw.record()
    assert (after.reason, after.wake_at, after.waiting_for) == ("", before.resume_at, "go")


# -- too late ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["signal", "cancel", "grant"])
def test_a_request_to_no_open_task_is_refused_and_leaves_nothing(raw: Raw, kind: str) -> None:
    request = Request(kind, "go", key="k")  # type: ignore[arg-type]
    assert raw.request(request, "unknown").answered == "refused"
    raw.start()
    raw.claim()
    raw.commit(ending="completed")
    before = raw.bench.rows.everything("t")
    assert raw.request(request).answered == "refused"
    assert raw.bench.rows.everything("t") == before


def test_a_task_of_a_foreign_engine_takes_no_requests(raw: Raw) -> None:
    with raw.bench.store.durable.exclusive("t"):
        assert raw.signal().answered == "refused"


def test_letters_show_all_requests_in_the_order_of_their_coming(raw: Raw) -> None:
    task = raw.start().id
    raw.signal("go", sender="ann")
    raw.grant(attempts=1, sender="bob")
    raw.cancel("enough", sender="cid")
    letters = raw.do(raw.tasks.task_letters(task))
    shown = [(letter.kind, letter.name, letter.sender, letter.seq, letter.dropped) for letter in letters]
    assert shown == [
        ("signal", "go", "ann", 1, False),
        ("grant", "", "bob", 2, False),
        ("cancel", "enough", "cid", 3, False),
    ]
    assert all(letter.used_at is None for letter in letters)


def test_there_is_nothing_of_a_task_that_is_not_there(raw: Raw) -> None:
    assert raw.do(raw.tasks.task_look(0, "go")) == (0, False)
    assert raw.do(raw.tasks.task_mail(0, "go")) is None
    assert raw.do(raw.tasks.task_letter(0)) is None
    assert raw.do(raw.tasks.task_letters(0)) == []
    assert raw.do(raw.tasks.task_apply_requests(raw.entry("unknown"), None)).answered == "refused"


def test_the_purge_takes_a_tasks_mail_and_journal_with_it(raw: Raw) -> None:
    task = raw.start().id
    raw.signal()
    raw.cancel()
    raw.do(raw.tasks.task_cancel(raw.at(), "enough"))
    raw.bench.age(100)
    while raw.do(raw.tasks.tasks_purge(1000, 500)):
        pass
    assert raw.do(raw.tasks.task_letters(task)) == []
    assert raw.do(raw.tasks.task_lines(task, 0, 100)) == []
    assert raw.do(raw.tasks.task_history(task)) == []
