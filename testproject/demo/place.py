"""Where the demo happens: a folder that one demo at a time may use, a database, and a login to look at it."""

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.urls import reverse

from django_statestore.models import Task
from testproject.demo.durable_tasks import read_text

LOGIN = "demo"


class Occupied(Exception):
    """Another demo is running."""


@contextmanager
def broker_folder() -> Iterator[Path]:
    """Give the broker's folder, empty; ``Occupied`` while another demo has it."""
    folder = Path(settings.BROKER)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it ends with this process, however that ends
        except BlockingIOError:
            raise Occupied from None
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()
        yield folder


def prepare_database() -> list[str]:
    """Migrate, make the login, and cancel what an interrupted demo has left; return the ids of those tasks."""
    call_command("migrate", verbosity=0)
    user, _ = get_user_model().objects.get_or_create(username=LOGIN, defaults={"is_staff": True, "is_superuser": True})
    if not user.check_password(LOGIN):
        user.set_password(LOGIN)
        user.save()
    left = Task.objects.filter(definition=read_text.id, status__in=["ready", "running"])
    ids = list(left.values_list("key", flat=True))
    for task_id in ids:
        read_text.cancel(task_id, "the demo was interrupted")
    return ids


def where_to_look(task: int) -> list[str]:
    """Return the lines that lead to the task in the admin."""
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    manage = os.path.relpath(Path(settings.BASE_DIR, "manage.py"))
    database = os.environ.get("STATESTORE_SQLITE")
    before = f"STATESTORE_SQLITE={database} " if database else ""
    return [
        f"{before}{python} {manage} runserver",
        f"http://127.0.0.1:8000{reverse('admin:statestore_task_change', args=[task])}",
        f"user {LOGIN}, password {LOGIN}",
    ]
