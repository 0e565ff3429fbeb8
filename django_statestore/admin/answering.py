"""The button of a task's page, and the page behind it, by which a person answers what the task waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib import admin, messages
from django.contrib.admin.helpers import AdminForm
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import connections, transaction
from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..durable.waiting import Wait
from ..exceptions import AlreadyAnswered, NotWaiting, TaskFinished, TaskNotFound
from ..models import Task
from ..services.answers import answer, form_class, may_answer
from ..services.inspect import waiting
from ..store import Store
from .places import store_of
from .shown import instant

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Task]
else:
    _ModelAdmin = admin.ModelAdmin

NAME = "statestore_task_answer"
WHICH = "_wait"
"""The field that says which wait of the task the page has shown."""

_SORRY = {
    AlreadyAnswered: _("Another has answered this before; your answer was not kept."),
    NotWaiting: _("The task waits for nothing that could be answered here."),
    TaskFinished: _("The task has ended; it takes no answers."),
}
_OUTDATED = _("The task waits for something else by now; your answer was not kept.")
_ANSWERED = _("Your answer was kept; the task goes on.")


class Button(NamedTuple):
    """Be a link at the top of a task's page."""

    label: Any
    url: str


class Answering:
    """Serve ``<id>/answer/``: GET shows the form of the wait, POST answers it in the name of the user."""

    def __init__(self, model_admin: _ModelAdmin) -> None:
        self._admin = model_admin

    def path(self) -> URLPattern:
        view: Callable[..., Any] = self._admin.admin_site.admin_view(self.view)
        for alias in connections:  # in a transaction an answer would only be kept, and not be told from a second one
            view = transaction.non_atomic_requests(using=alias)(view)
        pattern: URLPattern = path("<path:object_id>/answer/", view, name=NAME)
        return pattern

    def button(self, request: HttpRequest, task: Task) -> Button | None:
        """Return the link to the page, for a user who may answer; None: there is nothing to answer."""
        try:
            wait = _found(task)[1]
        except TaskNotFound:
            return None
        if wait is None or not wait.form or not may_answer(wait, request.user):
            return None
        return Button(_("Answer"), self._url(NAME, task))

    def view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        task = self._admin.get_object(request, unquote(object_id))
        try:
            if task is None:
                raise TaskNotFound(object_id)
            store, wait = _found(task)
        except TaskNotFound:
            gone: HttpResponse = self._admin._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
                request, self._admin.opts, object_id
            )
            return gone
        if not (may_answer(wait, request.user) if wait else self._admin.has_view_permission(request, task)):
            raise PermissionDenied
        try:
            return self._answered(request, task, store, wait)
        except (AlreadyAnswered, NotWaiting, TaskFinished) as error:
            return self._back(request, task, messages.WARNING, _SORRY[type(error)])

    # -- its parts ----------------------------------------------------------------------------------------------------

    def _answered(self, request: HttpRequest, task: Task, store: Store | None, wait: Wait | None) -> HttpResponse:
        if task.finished_at is not None:
            raise TaskFinished(task.key)
        if store is None or wait is None or not wait.form:
            raise NotWaiting(task.key)
        form = form_class(wait.form)
        if request.method != "POST":
            return self._page(request, task, wait, form())
        if request.POST.get(WHICH) != _which(task):
            return self._back(request, task, messages.WARNING, _OUTDATED)
        try:
            answer(store, task.key, request.POST, request.user)
        except ValidationError:
            return self._page(request, task, wait, form(data=request.POST))
        self._admin.log_change(request, task, gettext("Answered what it waited for: %(name)s.") % {"name": wait.name})
        return self._back(request, task, messages.SUCCESS, _ANSWERED)

    def _page(self, request: HttpRequest, task: Task, wait: Wait, form: BaseForm) -> HttpResponse:
        admin_form = AdminForm(form, [(None, {"fields": list(form.fields)})], {})  # type: ignore[arg-type]
        site = self._admin.admin_site
        request.current_app = site.name
        context = {
            **site.each_context(request),
            "title": _("Answer"),
            "subtitle": str(task),
            "opts": self._admin.opts,
            "original": task,
            "adminform": admin_form,
            "media": self._admin.media + admin_form.media,
            "errors": form.errors,
            "has_view_permission": self._admin.has_view_permission(request, task),
            "task_url": self._url("statestore_task_change", task),
            "wait": wait,
            "until": instant(wait.until or task.deadline),
            "which_field": WHICH,
            "which": _which(task),
        }
        return TemplateResponse(request, "admin/statestore/task/answer.html", context)

    def _back(self, request: HttpRequest, task: Task, level: int, message: Any) -> HttpResponse:
        """Go to the task's page, or for a user who may only answer to the first page, and say what happened."""
        self._admin.message_user(request, message, level)
        shown = self._admin.has_view_permission(request, task)
        return HttpResponseRedirect(self._url("statestore_task_change", task) if shown else self._url("index"))

    def _url(self, name: str, task: Task | None = None) -> str:
        site = self._admin.admin_site.name
        return reverse(f"admin:{name}", args=[] if task is None else [task.pk], current_app=site)


def _found(task: Task) -> tuple[Store | None, Wait | None]:
    store = store_of(task)
    return store, waiting(store, task.key) if store else None


def _which(task: Task) -> str:
    """Name the wait that a task is in: a later one comes after more attempts."""
    return str(task.attempts)
