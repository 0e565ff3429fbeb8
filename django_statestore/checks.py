"""What ``manage.py check`` says about the stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, register

from . import stores
from .exceptions import StateStoreError


@register("statestore")
def check_stores(**kwargs: Any) -> Sequence[CheckMessage]:
    """Report stores that cannot be made as they are configured, and what each backend has to say."""
    messages: list[CheckMessage] = []
    for alias in stores:
        try:
            messages += stores[alias].backend.check()
        except StateStoreError as error:
            messages.append(Error(str(error), hint="Correct the setting.", id="statestore.E001"))
    return messages
