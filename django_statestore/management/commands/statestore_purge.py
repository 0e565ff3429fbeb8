"""``manage.py statestore_purge``: remove what has expired, now."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_statestore import stores
from django_statestore.services.purge import BATCH, purge


class Command(BaseCommand):
    help = "Remove expired entries, spooled bytes that nobody shows any more, and finished tasks, in bounded batches."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--store", help="Only this alias of STATESTORES; otherwise all of them.")
        parser.add_argument("--batch-size", type=int, default=BATCH, help="Rows a batch (default: %(default)s).")

    def handle(self, *args: Any, **options: Any) -> None:
        alias, batch_size = options["store"], options["batch_size"]
        if alias is not None and alias not in stores:
            raise CommandError(f"there is no store {alias!r}; STATESTORES has {', '.join(stores)}")
        if batch_size < 1:
            raise CommandError("--batch-size must be at least 1")

        def progress(store: str, kind: str, total: int) -> None:
            if options["verbosity"] >= 1:
                self.stdout.write(f"{store}: {kind}: {total} removed")

        totals = purge(alias, batch_size=batch_size, progress=progress)
        self.stdout.write(self.style.SUCCESS(f"removed {sum(totals.values())} in all"))
