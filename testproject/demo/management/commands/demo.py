"""``manage.py demo [FILE]``: see a durable task survive its workers."""

import sqlite3
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from testproject.demo.stopping import Interrupted, Stop, asked_to_stop
from testproject.demo.texts import find_text

LARGEST = 5_000_000
OLDEST_SQLITE = (3, 35)


class Command(BaseCommand):
    help = (
        "Run a durable task over a text file, kill its Celery worker inside a step, three times, let it wait for an "
        "approval, and watch beat's sweep bring it to its end. Needs no server. Exit status 0: what it claims holds."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", metavar="FILE", help="a text file (default: Python's own licence)")
        parser.add_argument(
            "--approve-in-admin",
            action="store_true",
            help="serve the admin, and wait until you approve or reject the report there (default: the demo approves)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        refuse()
        path = text(options["file"])
        with asked_to_stop() as stop:
            try:
                self._run(path, stop, in_admin=options["approve_in_admin"])
            except Interrupted as interrupted:
                raise CommandError(
                    f"interrupted ({interrupted}): its processes are killed; the next demo cancels the task",
                    returncode=128 + interrupted.number,
                ) from None

    def _run(self, path: Path, stop: Stop, *, in_admin: bool) -> None:
        from testproject.demo import approval, place
        from testproject.demo.processes import Processes
        from testproject.demo.runner import Failed, Story
        from testproject.demo.timeline import Timeline

        try:
            with place.broker_folder() as folder:
                timeline = Timeline(self.stdout, self.style)
                introduce(timeline, path)
                for task_id in place.prepare_database():
                    timeline.say(f"  (an earlier demo was interrupted: its task {task_id} is cancelled)")
                stop.check()
                log = folder / "celery.log"
                with Processes(log) as processes:
                    reader = approval.Reader(processes, timeline, stop.check) if in_admin else approval.Demo()
                    try:
                        task, claims = Story(path, processes, timeline, reader, stop.check).tell()
                    except Failed as failure:
                        raise CommandError(f"{failure}; Celery's log is {log}{last_lines(log)}") from None
        except place.Occupied:
            raise CommandError("another demo is running here: wait for its end") from None
        timeline.say()
        rejected = ", which was rejected" if task.reason == "rejected" else ""
        timeline.head(f"The report of {path.name}{rejected}")
        for line in task.state.body.splitlines():
            timeline.say(f"  {line}")
        timeline.say()
        timeline.head("What was claimed, checked against the database")
        timeline.verdict(claims)
        timeline.say()
        timeline.head("Look at the task in the admin")
        for line in place.where_to_look(task.record.id):
            timeline.say(f"  {line}")
        failed = [claim for claim, holds in claims if not holds]
        if failed:
            raise CommandError(f"not so: {'; '.join(failed)}; Celery's log is {log}{last_lines(log)}")


def refuse() -> None:
    """Say in one line why the demo cannot run here."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise CommandError(f"the demo needs SQLite 3.35 or later; this Python has {sqlite3.sqlite_version}")
    if find_spec("celery") is None:
        raise CommandError("the demo needs Celery: install the extra, pip install -e '.[demo]'")
    if settings.SETTINGS_MODULE != "testproject.demo_settings":
        raise CommandError("the demo has settings of its own: unset DJANGO_SETTINGS_MODULE, run manage.py demo")


def text(given: str | None) -> Path:
    """Return the file to read, or say in one line why it will not do."""
    path = Path(given).resolve() if given else find_text()
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from None
    if not content or b"\0" in content:
        raise CommandError(f"{path} is {'no text' if content else 'empty'}: give a text")
    if len(content) > LARGEST:
        raise CommandError(f"{path} is too long for a demo of a minute: give a text of up to {LARGEST // 1_000_000} MB")
    return path


def introduce(timeline: Any, path: Path) -> None:
    from django_statestore import conf

    values = conf.get()
    timeline.head("A durable task reads a text. Its workers are killed; it comes to its end all the same.")
    timeline.say(f"  text      {path}")
    timeline.say(f"  database  {settings.DATABASES['default']['NAME']} (SQLite {sqlite3.sqlite_version})")
    timeline.say("  celery    a worker and beat, each a process of its own; the broker is a folder of files")
    timeline.say(f"  rules     lease {values.lease / 1000:g} s, beat sweeps every {values.sweep_every / 1000:g} s")
    timeline.say()


def last_lines(log: Path, count: int = 5) -> str:
    """Return the end of Celery's log, to be shown where something failed."""
    if not log.exists():
        return ""
    return "".join(f"\n  | {line}" for line in log.read_text(errors="replace").splitlines()[-count:])
