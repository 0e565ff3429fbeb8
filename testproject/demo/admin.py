"""The demo's reports in the admin: look, never edit."""

from typing import TYPE_CHECKING

from django.contrib import admin
from django.http import HttpRequest

from testproject.demo.models import Report

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Report]
else:
    _ModelAdmin = admin.ModelAdmin


@admin.register(Report)
class ReportAdmin(_ModelAdmin):
    list_display = ("task_id", "source", "sections", "words", "recorded_at")
    ordering = ("-id",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Report | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Report | None = None) -> bool:
        return False
