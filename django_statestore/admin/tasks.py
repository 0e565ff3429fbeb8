"""Durable tasks in the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin import display
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from ..durable.registry import known_fingerprints
from ..models import Snapshot, Task

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Task]
    _Inline = admin.TabularInline[Snapshot, Task]
else:
    _ModelAdmin, _Inline = admin.ModelAdmin, admin.TabularInline


class SavedSteps(_Inline):
    """Show the kept saves of a task, the newest first; at most 20 are ever kept."""

    model = Snapshot
    fields = readonly_fields = (
        "save_seq", "step", "turn", "attempts", "outcome", "milliseconds", "size", "worker", "saved_at",
    )  # fmt: skip
    ordering = ("-save_seq",)
    extra = 0
    can_delete = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Snapshot]:
        return super().get_queryset(request).defer("state")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Task)
class TaskAdmin(_ModelAdmin):
    """Show durable tasks. Nothing can be added, changed or deleted by hand."""

    list_display = (
        "key",
        "namespace",
        "definition",
        "status",
        "next_step",
        "attempts_used",
        "progress_shown",
        "reason",
    )
    list_filter = ("status",)
    search_fields = ("=key",)
    search_help_text = _("The exact id of a task")
    ordering = ("-id",)
    list_per_page = 50
    show_full_result_count = False
    inlines = (SavedSteps,)
    fields = readonly_fields = (
        "key", "namespace", "definition", "revision", "status", "reason", "next_step", "turn", "attempts_used",
        "deadline", "wake_at", "worker", "fence", "claims", "progress_shown", "cancel_requested", "last_error",
        "created_at", "finished_at",
    )  # fmt: skip

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Task | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Task | None = None) -> bool:
        return False

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

    @display(description=_("progress"), empty_value="-")
    def progress_shown(self, task: Task) -> str | None:
        return None if task.progress is None else f"{task.progress:.0%} {task.progress_text}".strip()
