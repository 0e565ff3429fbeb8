"""How the admin shows what has no look of its own."""

from __future__ import annotations

from datetime import datetime

from django.utils.formats import date_format
from django.utils.timezone import localtime

NOTHING = "-"
"""What stands for no value; Django puts it into lists by itself, but not into the page of a task."""


def instant(value: datetime | None) -> str:
    """Show an instant to the second: Django's own format ends with the minute."""
    return NOTHING if value is None else date_format(localtime(value), "Y-m-d H:i:s")
