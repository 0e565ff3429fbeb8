"""The Celery app of the test project: `celery -A testproject worker`, `celery -A testproject beat`."""

from celery import Celery

from django_statestore.beat import beat_schedule

app = Celery("testproject")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def schedule(sender: Celery, **kwargs: object) -> None:
    """Have beat sweep and purge; the settings can be read by now."""
    sender.conf.beat_schedule |= beat_schedule()


app.on_after_configure.connect(schedule)
