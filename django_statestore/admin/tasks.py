"""Durable tasks in the admin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin import display
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from ..durable.registry import known_fingerprints
from ..models import Snapshot, Task
from .answering import Answering
from .shown import NOTHING, instant

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Task]
    _Inline = admin.TabularInline[Snapshot, Task]
else:
    _ModelAdmin, _Inline = admin.ModelAdmin, admin.TabularInline


def _instant(model: type[Model], name: str) -> Callable[[Any, Any], str]:
    """Make a column that shows an instant."""

    @display(description=model._meta.get_field(name).verbose_name, ordering=name)  # type: ignore[union-attr]
    def shown(self: Any, row: Any) -> str:
        return instant(getattr(row, name))

    return shown


class SavedSteps(_Inline):
    """Show the kept saves of a task, the newest first; at most 20 are ever kept."""

    model = Snapshot
    fields = readonly_fields = (
        "save_seq", "step", "turn", "attempts", "outcome", "milliseconds", "size", "worker", "saved",
    )  # fmt: skip
    ordering = ("-save_seq",)
    extra = 0
    can_delete = False

    saved = _instant(Snapshot, "saved_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Snapshot]:
        return super().get_queryset(request).defer("state")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Task)
class TaskAdmin(_ModelAdmin):
    """Show durable tasks. Nothing can be added, changed or deleted by hand; what they wait for can be answered."""

    list_display = (
        "key", "namespace", "definition", "status", "next_step", "attempts_used", "percent", "short_reason",
    )  # fmt: skip
    list_filter = ("status",)
    search_fields = ("=key",)
    search_help_text = _("The exact id of a task")
    ordering = ("-id",)
    list_per_page = 50
    show_full_result_count = False
    inlines = (SavedSteps,)
    fields = readonly_fields = (
        "key", "namespace", "definition", "revision", "status", "reason", "next_step", "turn", "waits_for",
        "waits_until", "attempts_used", "ends_by", "due", "worker", "fence", "claims", "progress_shown",
        "cancel_requested", "last_error", "started", "finished",
    )  # fmt: skip

    ends_by = _instant(Task, "deadline")
    due = _instant(Task, "wake_at")
    started = _instant(Task, "created_at")
    finished = _instant(Task, "finished_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Task | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Task | None = None) -> bool:
        return False

    # -- buttons ------------------------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        return [Answering(self).path(), *super().get_urls()]

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Task | None = None,
    ) -> HttpResponse:
        offered = [Answering(self).button(request, obj)] if obj else []
        context["buttons"] = [button for button in offered if button]
        return super().render_change_form(request, context, add, change, form_url, obj)

    # -- columns ------------------------------------------------------------------------------------------------------

    @display(description=_("step"))
    def next_step(self, task: Task) -> str:
        definition = known_fingerprints().get(task.fingerprint)
        number = task.step_index + 1
        if definition is None:
            return str(number)
        total = len(definition.steps)
        return f"{total} / {total}" if number > total else f"{number} / {total} {definition.step_name(task.step_index)}"

    @display(description=_("attempts"))
    def attempts_used(self, task: Task) -> str:
        return f"{task.attempts} / {task.max_attempts}"

    @display(description=_("waits for"))
    def waits_for(self, task: Task) -> str:
        return task.waiting_for if task.waiting_for and task.finished_at is None else NOTHING

    @display(description=_("waits until"))
    def waits_until(self, task: Task) -> str:
        """Show the end of a wait or sleep."""
        if task.finished_at is not None:
            return NOTHING
        return instant(task.resume_at or (task.deadline if task.waiting_for else None))

    @display(description=_("progress"))
    def percent(self, task: Task) -> str:
        return NOTHING if task.progress is None else f"{task.progress:.0%}"

    @display(description=_("reason"))
    def short_reason(self, task: Task) -> str:
        return Truncator(task.reason).chars(40) or NOTHING

    @display(description=_("progress"))
    def progress_shown(self, task: Task) -> str:
        return NOTHING if task.progress is None else f"{task.progress:.0%} {task.progress_text}".strip()
