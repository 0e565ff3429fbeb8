"""What the demo leaves behind, in the admin: look, never edit."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from testproject.demo.models import Booking, Report


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    ordering = ("-id",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Report)
class ReportAdmin(ReadOnly):
    list_display = ("task_id", "source", "sections", "words", "recorded_at")


@admin.register(Booking)
class BookingAdmin(ReadOnly):
    list_display = ("task_id", "reports", "words")
