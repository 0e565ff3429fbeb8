"""A wait is answered by a person: with the permission and by the form that the wait names, and once."""

from functools import partial
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import connections

from django_statestore.durable import DurableTask, Repeat, StepContext, WaitFor
from django_statestore.exceptions import AlreadyAnswered, NotWaiting, TaskFinished, TaskNotFound
from django_statestore.services.answers import answer, form_class
from django_statestore.testing.conformance.calling import at_once
from testproject.demo import texts
from tests.durable.conftest import Bench, State, on_databases

pytestmark = pytest.mark.django_db(databases="__all__")


class ApprovalForm(forms.Form):
    """Ask for a word and a number."""

    ok = forms.BooleanField(required=False)
    amount = forms.IntegerField(min_value=1)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an installed app hold the form, as a project's own app does."""
    monkeypatch.setattr(texts, "ApprovalForm", ApprovalForm, raising=False)
    monkeypatch.setattr(ApprovalForm, "__module__", texts.__name__)


class Person:
    """Stand for a user with some permissions: what is asked of one."""

    def __init__(self, name: str, *permissions: str, is_active: bool = True) -> None:
        self.name, self.permissions, self.is_active = name, permissions, is_active

    def has_perm(self, permission: str) -> bool:
        return permission in self.permissions

    def get_username(self) -> str:
        return self.name


ANN: Any = Person("ann", "shop.approve")
BOB: Any = Person("bob", "shop.approve")


def asking(bench: Bench, turns: int = 1, **wait: Any) -> DurableTask[State]:
    """Define a task that waits for an answer, perhaps more than once, and keeps it."""
    task = bench.define()
    given: dict[str, Any] = {"form": ApprovalForm, "permission": "shop.approve"} | wait

    @task.step(replay="safe")
    def ask(state: State, ctx: StepContext) -> object:
        return WaitFor(state, "approval", **given)

    @task.step(replay="safe")
    def hear(state: State, ctx: StepContext) -> object:
        got = ctx.received
        state = state.then(f"{got.payload} by {got.sender}" if got else "silence")
        return Repeat(state, wait_for="approval") if ctx.turn < turns else state

    bench.start(task)
    bench.run(task)
    return task


def test_an_answer_is_the_cleaned_data_in_the_name_of_the_user(bench: Bench) -> None:
    task = asking(bench)
    waits = bench.get(task).waiting
    assert waits is not None
    assert (waits.form, waits.permission) == ("testproject.demo.texts:ApprovalForm", "shop.approve")
    assert answer(bench.store, "t", {"ok": "on", "amount": "12", "more": "x"}, ANN).due
    assert bench.run(task).state.ran == ("{'ok': True, 'amount': 12} by ann",)


def test_of_two_answers_the_first_wins(bench: Bench) -> None:
    task = asking(bench)
    answer(bench.store, "t", {"amount": "1"}, ANN)
    with pytest.raises(AlreadyAnswered, match="'t'"):
        answer(bench.store, "t", {"amount": "2"}, BOB)
    assert bench.run(task).state.ran == ("{'ok': False, 'amount': 1} by ann",)
    assert len(bench.call(bench.get(task).letters)) == 1


@on_databases
@pytest.mark.django_db(databases="__all__", transaction=True)
def test_of_many_answers_at_one_moment_one_wins(bench: Bench) -> None:
    task = asking(bench)

    def click(number: int) -> bool:
        try:
            answer(bench.store, "t", {"amount": str(number)}, ANN)
        except AlreadyAnswered:
            return False
        return True

    clicks = at_once([partial(click, number) for number in range(1, 6)], connections.close_all)
    winner = clicks.index(True) + 1
    assert clicks.count(True) == 1
    assert bench.run(task).state.ran == (f"{{'ok': False, 'amount': {winner}}} by ann",)


def test_a_later_wait_of_the_same_name_is_answered_anew(bench: Bench) -> None:
    task = asking(bench, turns=2, form=None)
    with pytest.raises(NotWaiting, match="names no form"):
        answer(bench.store, "t", {"amount": "1"}, ANN)
    bench.call(bench.get(task).signal, "approval", 1)
    bench.run(task)
    bench.rows.change("t", "wait_spec", '{"form": "testproject.demo.texts:ApprovalForm", "permission": "shop.approve"}')
    answer(bench.store, "t", {"amount": "2"}, ANN)
    assert bench.run(task).status == "completed"
    assert len(bench.call(bench.get(task).letters)) == 2


def test_a_wrong_answer_is_refused_with_the_errors_of_its_form(bench: Bench) -> None:
    task = asking(bench)
    with pytest.raises(ValidationError) as refused:
        answer(bench.store, "t", {"amount": "0"}, ANN)
    assert list(refused.value.message_dict) == ["amount"]
    assert bench.call(bench.get(task).letters) == []


@pytest.mark.parametrize(
    "user",
    [Person("eve"), Person("eve", "shop.other"), Person("eve", "shop.approve", is_active=False), AnonymousUser()],
    ids=["nobody", "another-permission", "inactive", "anonymous"],
)
def test_who_lacks_the_permission_is_refused_whatever_the_answer(bench: Bench, user: Any) -> None:
    task = asking(bench)
    with pytest.raises(PermissionDenied):
        answer(bench.store, "t", {"amount": "0"}, user)
    assert bench.call(bench.get(task).letters) == []


def test_a_wait_without_a_permission_wants_the_one_to_change_tasks(bench: Bench) -> None:
    asking(bench, permission="")
    with pytest.raises(PermissionDenied):
        answer(bench.store, "t", {"amount": "1"}, ANN)
    user = User.objects.create_user("cara")
    with pytest.raises(PermissionDenied):
        answer(bench.store, "t", {"amount": "1"}, user)
    user.user_permissions.add(Permission.objects.get(codename="change_task", content_type__app_label="statestore"))
    assert answer(bench.store, "t", {"amount": "1"}, User.objects.get(pk=user.pk)).due


def test_what_waits_for_nothing_cannot_be_answered(bench: Bench) -> None:
    task = asking(bench)
    with pytest.raises(TaskNotFound):
        answer(bench.store, "nobody", {}, ANN)
    bench.start(task, "fresh")
    with pytest.raises(NotWaiting, match="'fresh' waits for no signal"):
        answer(bench.store, "fresh", {}, ANN)
    bench.cancel(task)
    with pytest.raises(TaskFinished):
        answer(bench.store, "t", {"amount": "1"}, ANN)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("os:system", "not in an installed app"),
        ("testproject.demos:Form", "not in an installed app"),
        ("testproject.settings:Form", "not in an installed app"),
        (":Form", "not in an installed app"),
        ("testproject.demo.nothing:Form", "there is no form"),
        ("testproject.demo.texts:Form", "there is no form"),
        ("testproject.demo.texts:ApprovalForm.fields", "there is no form"),
        ("testproject.demo.texts", "there is no form"),
        ("testproject.demo.texts:ApprovalForm.__module__", "is not a Django form"),
        ("django_statestore.models:Task", "is not a Django form"),
    ],
)
def test_only_a_form_of_an_installed_app_is_ever_loaded(name: str, words: str) -> None:
    with pytest.raises(NotWaiting, match=words):
        form_class(name)
    assert form_class("testproject.demo.texts:ApprovalForm") is ApprovalForm


class OddForm(forms.Form):
    """Clean to what no store can keep."""

    def clean(self) -> dict[str, Any]:
        return {"who": object()}


def test_an_answer_that_cannot_be_kept_is_an_error_of_the_form(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "OddForm", OddForm, raising=False)
    monkeypatch.setattr(OddForm, "__module__", texts.__name__)
    task = asking(bench, form=OddForm)
    bench.start(task)
    bench.run(task)
    with pytest.raises(ValidationError, match=r"cannot be kept: \$\.who"):
        answer(bench.store, "t", {}, ANN)
    assert bench.get(task).letters() == []
