"""``manage.py statestore_upgrade_check``: list the open durable tasks that this code could not continue."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_statestore import stores
from django_statestore.exceptions import StateStoreError
from django_statestore.services.repair import migrate
from django_statestore.services.upgrade import Stuck, stuck_tasks


class Command(BaseCommand):
    help = (
        "List the open durable tasks that the code at hand could not continue: run the new code with it before a "
        "deploy. Exits with 1 if one of them has no migration either. Reads only, unless told to migrate."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--store", help="Only this alias of STATESTORES; otherwise all of them.")
        parser.add_argument(
            "--migrate",
            action="store_true",
            help="After the deploy: carry over the tasks that have a migration. One that a worker holds is left.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        alias = options["store"]
        if alias is not None and alias not in stores:
            raise CommandError(f"there is no store {alias!r}; STATESTORES has {', '.join(stores)}")
        stuck = ready = 0
        for task in stuck_tasks(alias):
            if task.migration and options["migrate"]:
                said, carried = self._migrated(task)
                stuck += not carried
            else:
                said = "a migration is registered" if task.migration else "no migration is registered"
                ready, stuck = ready + task.migration, stuck + (not task.migration)
            self.stdout.write(f"{_line(task)}; {said}")
        if stuck:
            raise CommandError(
                f"{stuck} open task{'s' if stuck > 1 else ''} would stand still under this code: keep a worker with "
                "the old code until they have ended, write a migration, or cancel them"
            )
        if ready:
            self.stdout.write(f"after the deploy: manage.py statestore_upgrade_check --migrate ({ready} to carry over)")
        self.stdout.write(self.style.SUCCESS("this code can continue every other open task" if ready else GOOD))

    def _migrated(self, task: Stuck) -> tuple[str, bool]:
        try:
            migrate(stores[task.store].at(task.namespace), task.task_id, sender="statestore_upgrade_check")
        except StateStoreError as error:
            return f"not migrated: {error}", False
        return "migrated", True


GOOD = "this code can continue every open task"


def _line(task: Stuck) -> str:
    where = "/".join((task.store, *task.namespace))
    return f"{where}: {task.definition} {task.task_id!r}: {task.problem}"
