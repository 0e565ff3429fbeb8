"""What a task waits for is answered in the admin: by who may, once, and seen by nobody who may not."""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from django_statestore import store
from django_statestore.admin.places import store_of
from django_statestore.durable import DurableTask, Repeat, Sleep, StepContext, TaskHandle, WaitFor
from django_statestore.durable.registry import unregister
from django_statestore.models import Task
from testproject.demo.forms import ApprovalForm

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script> {{ 7|add:1 }} %s ../../ \"'&\n‮\\/" + "x" * 60


@pytest.fixture
def names() -> tuple[str, ...]:
    return (f"test-{uuid.uuid4().hex[:12]}", HOSTILE)


@pytest.fixture
def task(settings: Any) -> Iterator[DurableTask[Any]]:
    """Define a task that waits as its state says, and then once more."""
    settings.STATESTORE = {"HINTS": False}
    task: DurableTask[Any] = DurableTask("test.asks", revision="1", deadline=3600, is_state=lambda value: True)

    @task.step(replay="safe")
    def ask(state: Any, ctx: StepContext) -> Any:
        return WaitFor(state, **WAITS[state])

    @task.step(replay="safe")
    def hear(state: Any, ctx: StepContext) -> Any:
        got = ctx.received
        if ctx.turn == 1:
            return Repeat([got.payload, got.sender] if got else None, wait_for="again", timeout=60)
        return state

    yield task
    unregister(task)


WAITS: dict[str, dict[str, Any]] = {
    "form": {"name": "approval", "timeout": 600, "form": ApprovalForm, "permission": "demo.add_report"},
    "hostile": {"name": HOSTILE, "form": ApprovalForm},
    "no form": {"name": "approval"},
}


@pytest.fixture
def waiting(task: DurableTask[Any], names: tuple[str, ...]) -> TaskHandle[Any]:
    return begun(task, names)


def begun(task: DurableTask[Any], names: tuple[str, ...], wait: str = "form", id: str = "t") -> TaskHandle[Any]:
    return task.start(wait, task_id=id, namespace=names).run()


def client(*permissions: str, **user: Any) -> Client:
    """Return a browser in which a new member of the staff has logged in."""
    person = User.objects.create_user(uuid.uuid4().hex, **{"is_staff": True, **user})
    for permission in permissions:
        app, _, codename = permission.partition(".")
        person.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    browser = Client(enforce_csrf_checks=False)
    browser.force_login(person)
    return browser


@pytest.fixture
def ann() -> Client:
    return client(is_superuser=True)


def page(task: TaskHandle[Any]) -> str:
    return reverse("admin:statestore_task_change", args=[task.record.id])


def answer_page(task: TaskHandle[Any]) -> str:
    return reverse("admin:statestore_task_answer", args=[task.record.id])


def shown(browser: Client, url: str) -> str:
    response = browser.get(url)
    assert response.status_code == 200
    text: str = response.content.decode()
    for script in re.findall(r"<script\b[^>]*>", text):
        assert " src=" in script
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text)
    return text


def filled(task: TaskHandle[Any], **data: str) -> dict[str, str]:
    """Return what a browser sends from the page as it is now."""
    return {"_wait": str(task.refresh().record.attempts), "decision": "approve", **data}


def told(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


def letters(task: TaskHandle[Any]) -> int:
    return len(task.letters())


def test_the_page_of_a_waiting_task_says_for_what_and_until_when(ann: Client, waiting: TaskHandle[Any]) -> None:
    text = shown(ann, page(waiting))
    assert waiting.waiting is not None
    assert waiting.waiting.until is not None
    assert f'<a href="{answer_page(waiting)}">Answer</a>' in text
    assert re.search(r"Waits for:.*?approval", text, re.DOTALL)
    assert re.search(rf"Waits until:.*?{waiting.waiting.until:%Y-%m-%d %H:%M:%S}", text, re.DOTALL)


def test_the_form_is_shown_as_the_admin_shows_forms(ann: Client, waiting: TaskHandle[Any]) -> None:
    text = shown(ann, answer_page(waiting))
    assert waiting.waiting is not None
    assert f"{waiting.waiting.until:%Y-%m-%d %H:%M:%S}" in text
    assert re.search(r'<div class="form-row field-decision">.*<select name="decision"', text, re.DOTALL)
    assert 'class="submit-row"' in text
    assert letters(waiting) == 0
    assert not LogEntry.objects.exists()


def test_an_answer_goes_to_the_task_in_the_name_of_the_user(ann: Client, waiting: TaskHandle[Any]) -> None:
    response = ann.post(answer_page(waiting), filled(waiting, note="private words"), follow=True)
    assert response.redirect_chain == [(page(waiting), 302)]
    assert told(response) == ["Your answer was kept; the task goes on."]
    name = User.objects.get().username
    assert waiting.run().state == [{"decision": "approve", "note": "private words"}, name]


def test_an_answer_is_logged_without_what_was_said(ann: Client, waiting: TaskHandle[Any]) -> None:
    ann.post(answer_page(waiting), filled(waiting, note="private words"))
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.object_repr) == (str(waiting.record.id), "t")
    assert entry.get_change_message() == "Answered what it waited for: approval."
    history = shown(ann, reverse("admin:statestore_task_history", args=[waiting.record.id]))
    assert "Answered what it waited for: approval." in history
    assert "private words" not in history


def test_a_wrong_answer_comes_back_with_its_errors(ann: Client, waiting: TaskHandle[Any]) -> None:
    response = ann.post(answer_page(waiting), filled(waiting, decision="perhaps", note="<b>kept</b>"))
    text = response.content.decode()
    assert response.status_code == 200
    assert "Select a valid choice" in text
    assert escape("<b>kept</b>") in text
    assert "Please correct the error below." in text
    assert (letters(waiting), LogEntry.objects.count()) == (0, 0)


def test_of_two_answers_the_first_counts(ann: Client, waiting: TaskHandle[Any]) -> None:
    form = filled(waiting)
    ann.post(answer_page(waiting), form)
    response = client(is_superuser=True).post(answer_page(waiting), {**form, "decision": "reject"}, follow=True)
    assert response.redirect_chain == [(page(waiting), 302)]
    assert told(response) == ["Another has answered this before; your answer was not kept."]
    assert (letters(waiting), LogEntry.objects.count()) == (1, 1)
    assert waiting.run().state[0]["decision"] == "approve"


@pytest.mark.parametrize("method", ["get", "post"])
def test_what_was_ended_takes_no_answer(ann: Client, waiting: TaskHandle[Any], method: str) -> None:
    form = filled(waiting)
    waiting.cancel()
    response = getattr(ann, method)(answer_page(waiting), form, follow=True)
    assert response.redirect_chain == [(page(waiting), 302)]
    assert told(response) == ["The task has ended; it takes no answers."]
    assert ">Answer</a>" not in shown(ann, page(waiting))
    assert letters(waiting) == 1  # the cancel


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_wait_without_a_form_is_not_answered_here(
    ann: Client, task: DurableTask[Any], names: tuple[str, ...], method: str
) -> None:
    waiting = begun(task, names, "no form")
    assert ">Answer</a>" not in shown(ann, page(waiting))
    response = getattr(ann, method)(answer_page(waiting), filled(waiting), follow=True)
    assert response.redirect_chain == [(page(waiting), 302)]
    assert told(response) == ["The task waits for nothing that could be answered here."]
    assert letters(waiting) == 0


def test_a_form_that_is_gone_is_said(ann: Client, waiting: TaskHandle[Any]) -> None:
    Task.objects.update(wait_spec='{"form": "os:system", "permission": ""}')
    response = ann.get(answer_page(waiting), follow=True)
    assert told(response) == ["The task waits for nothing that could be answered here."]


def test_a_page_that_showed_an_earlier_wait_answers_no_later_one(ann: Client, waiting: TaskHandle[Any]) -> None:
    form = filled(waiting)
    ann.post(answer_page(waiting), form, follow=True)
    waiting.run()
    spec = '{"form": "testproject.demo.forms:ApprovalForm", "permission": ""}'
    Task.objects.update(wait_spec=spec)
    response = ann.post(answer_page(waiting), form, follow=True)
    assert told(response) == ["The task waits for something else by now; your answer was not kept."]
    assert letters(waiting) == 1
    response = ann.post(answer_page(waiting), filled(waiting), follow=True)
    assert told(response) == ["Your answer was kept; the task goes on."]
    assert waiting.run().status == "completed"


def test_the_permission_of_the_wait_is_enough_to_answer(waiting: TaskHandle[Any]) -> None:
    browser = client("demo.add_report")
    assert browser.get(page(waiting)).status_code == 403
    assert page(waiting) not in shown(browser, answer_page(waiting))
    response = browser.post(answer_page(waiting), filled(waiting), follow=True)
    assert response.redirect_chain == [(reverse("admin:index"), 302)]
    assert told(response) == ["Your answer was kept; the task goes on."]


@pytest.mark.parametrize("permissions", [(), ("statestore.view_task", "statestore.change_task")], ids=["none", "other"])
def test_who_lacks_the_permission_gets_403(waiting: TaskHandle[Any], permissions: tuple[str, ...]) -> None:
    browser = client(*permissions)
    assert browser.get(answer_page(waiting)).status_code == 403
    assert browser.post(answer_page(waiting), filled(waiting)).status_code == 403
    if permissions:
        assert ">Answer</a>" not in shown(browser, page(waiting))
    assert letters(waiting) == 0


def test_who_may_see_no_task_learns_nothing_of_one(task: DurableTask[Any], names: tuple[str, ...]) -> None:
    waiting = begun(task, names, "no form")
    waiting.cancel()
    assert client("demo.add_report").get(answer_page(waiting)).status_code == 403


def test_a_stranger_is_sent_to_the_login(waiting: TaskHandle[Any]) -> None:
    for browser in (Client(), client("demo.add_report", is_staff=False)):
        response = browser.post(answer_page(waiting), filled(waiting))
        assert response.status_code == 302
        assert response["Location"].startswith(reverse("admin:login"))
    assert letters(waiting) == 0


def test_a_forged_post_is_refused(ann: Client, waiting: TaskHandle[Any]) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(User.objects.get())
    assert browser.post(answer_page(waiting), filled(waiting)).status_code == 403
    assert ann.put(answer_page(waiting)).status_code == 405
    assert letters(waiting) == 0


@pytest.mark.parametrize("object_id", ["0", "999999", "9" * 40, "-1", "abc", "_3Cb_3E", "1/2"])
def test_no_such_task(ann: Client, object_id: str) -> None:
    response = ann.get(reverse("admin:statestore_task_answer", args=[object_id]), follow=True)
    assert response.redirect_chain == [(reverse("admin:index"), 302)]
    assert "Perhaps it was deleted?" in told(response)[0]


def test_hostile_names_are_only_shown(ann: Client, task: DurableTask[Any], names: tuple[str, ...]) -> None:
    waiting = begun(task, names, "hostile", HOSTILE)
    for url in (page(waiting), answer_page(waiting)):
        text = shown(ann, url)
        assert "<script>alert(1)" not in text
        assert escape("<script>alert(1)</script> {{ 7|add:1 }} %s") in text
    response = ann.post(answer_page(waiting), filled(waiting), follow=True)
    assert told(response) == ["Your answer was kept; the task goes on."]
    assert escape("Answered what it waited for: <script>alert(1)") in shown(
        ann, reverse("admin:statestore_task_history", args=[waiting.record.id])
    )
    assert waiting.run().state[0]["decision"] == "approve"


def test_a_sleeping_task_shows_until_when_and_nothing_to_answer(
    ann: Client, task: DurableTask[Any], names: tuple[str, ...]
) -> None:
    sleeper: DurableTask[Any] = DurableTask("test.sleeps", revision="1", deadline=3600, is_state=lambda value: True)
    sleeper.step(replay="safe")(sleep)
    try:
        asleep = sleeper.start(1, task_id="asleep", namespace=names).run()
    finally:
        unregister(sleeper)
    text = shown(ann, page(asleep))
    assert asleep.record.resume_at is not None
    assert re.search(rf"Waits until:.*?{asleep.record.resume_at:%Y-%m-%d %H:%M:%S}", text, re.DOTALL)
    assert ">Answer</a>" not in text


def sleep(state: Any, ctx: StepContext) -> Any:
    return Sleep(state, 600)


@pytest.mark.django_db(transaction=True)
def test_an_answer_is_kept_at_once_also_where_requests_are_atomic(
    ann: Client, waiting: TaskHandle[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", True)
    form = filled(waiting)
    assert told(ann.post(answer_page(waiting), form, follow=True)) == ["Your answer was kept; the task goes on."]
    assert "Another has answered" in told(ann.post(answer_page(waiting), form, follow=True))[0]
    assert [letter.seq for letter in waiting.letters()] == [1]


def test_the_store_of_a_row_is_the_nearest_one_on_its_database(
    waiting: TaskHandle[Any], names: tuple[str, ...], settings: Any
) -> None:
    row = Task.objects.get()
    found = store_of(row)
    assert found is not None
    assert (found.alias, found.names) == ("default", names)
    backend = settings.STATESTORES["default"]["BACKEND"]
    near = {"BACKEND": backend, "OPTIONS": {"namespace": names[:1]}}
    other = {"BACKEND": backend, "OPTIONS": {"namespace": ("elsewhere",)}}
    memory = {"BACKEND": "django_statestore.backends.memory.MemoryBackend"}
    settings.STATESTORES = {"memory": memory, "default": settings.STATESTORES["default"], "near": near, "other": other}
    found = store_of(row)
    assert found is not None
    assert (found.alias, found.names) == ("near", names)
    assert found.durable.entry("t").digest == store.namespace(*names).durable.entry("t").digest


def test_a_row_of_no_store_is_only_shown(ann: Client, waiting: TaskHandle[Any], settings: Any) -> None:
    settings.STATESTORES = {"default": {**settings.STATESTORES["default"], "OPTIONS": {"namespace": "elsewhere"}}}
    assert store_of(Task.objects.get()) is None
    assert ">Answer</a>" not in shown(ann, page(waiting))
    response = ann.get(answer_page(waiting), follow=True)
    assert told(response) == ["The task waits for nothing that could be answered here."]
