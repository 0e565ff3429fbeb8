"""The demonstrations of the contract, run by a foreign engine on every store that has it."""

from __future__ import annotations

import pytest

from django_statestore import Store
from tests.calling import Call

from .counting import TASK_ID, Committed, commit, committing, counting, demo_checkpoint
from .interpreter import Context, Died


def test_a_first_run_completes_and_has_spent_one_attempt(store: Store, call: Call) -> None:
    call(store.durable.save, TASK_ID, demo_checkpoint())
    end = call(counting().run, TASK_ID, store)
    assert (end.status, end.state) == ("completed", {"count": 1})
    assert call(store.durable.load, TASK_ID) == end
    assert end.attempt_count == 1


def test_a_completed_record_never_executes_a_step_again(store: Store, call: Call) -> None:
    committed: Committed = {}
    context = Context(app=(committed, TASK_ID))
    call(store.durable.save, TASK_ID, demo_checkpoint())
    ends = [call(committing().run, TASK_ID, store, context) for _ in range(2)]
    assert [(end.status, end.state, end.attempt_count) for end in ends] == [("completed", {"count": 1}, 1)] * 2
    assert committed == {TASK_ID: 1}


def test_a_death_between_effect_and_save_is_reconciled_with_what_the_business_knows(store: Store, call: Call) -> None:
    committed: Committed = {}
    entered = []

    def dies(state: object, context: Context) -> None:
        entered.append(commit(state, context))
        raise Died

    call(store.durable.save, TASK_ID, demo_checkpoint())
    task, context = committing(dies), Context(app=(committed, TASK_ID))
    with pytest.raises(Died):
        call(task.run, TASK_ID, store, context)
    left = call(store.durable.load, TASK_ID)
    assert left is not None
    assert (left.status, left.attempt_count, left.state) == ("running", 1, {"count": 0})
    committed[TASK_ID] = 7  # the business has the last word, not the step
    end = call(task.run, TASK_ID, store, context)
    assert (end.status, end.attempt_count, end.state) == ("completed", 1, {"count": 7})
    assert len(entered) == 1


def test_an_effect_that_cannot_be_confirmed_is_neither_a_failure_nor_run_again(store: Store, call: Call) -> None:
    committed: Committed = {}

    def dies(state: object, context: Context) -> None:
        raise Died

    call(store.durable.save, TASK_ID, demo_checkpoint())
    task, context = committing(dies), Context(app=(committed, TASK_ID))
    with pytest.raises(Died):
        call(task.run, TASK_ID, store, context)
    left = call(store.durable.load, TASK_ID)
    for _ in range(2):
        with pytest.raises(LookupError, match="the app must decide"):
            call(task.run, TASK_ID, store, context)
        assert call(store.durable.load, TASK_ID) == left
    committed[TASK_ID] = 1
    assert call(task.run, TASK_ID, store, context).status == "completed"
