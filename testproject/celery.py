"""The Celery app of the test project: `celery -A testproject worker`, `celery -A testproject beat`."""

from pathlib import Path

from celery import Celery
from django.conf import settings

from django_statestore.beat import beat_schedule

app = Celery("testproject")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def make_folders() -> None:
    """Make the folders that stand for a broker."""
    for folder in ("messages", "processed", "control"):
        Path(settings.BROKER, folder).mkdir(parents=True, exist_ok=True)


def prepare(sender: Celery, **kwargs: object) -> None:
    """Schedule the sweep and the purge, and have a broker."""
    sender.conf.beat_schedule |= beat_schedule()
    make_folders()


app.on_after_configure.connect(prepare)
