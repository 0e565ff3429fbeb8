"""The app itself. It does no database or Redis work when Django starts."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StateStoreConfig(AppConfig):
    name = "django_statestore"
    label = "statestore"
    verbose_name = _("State store")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks as checks
        from .durable.registry import autodiscover

        autodiscover()
