"""``manage.py statestore_worker``: resume durable tasks in a project without Celery."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_statestore import stores
from django_statestore.services.work import Worker


class Command(BaseCommand):
    help = (
        "Drive due durable tasks, sweep and purge, until stopped. Run as many as you like. On SIGTERM or Ctrl-C the "
        "step at hand is finished and saved; a second signal ends the process at once, and another worker resumes."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--store", help="Only this alias of STATESTORES; otherwise all of them.")
        parser.add_argument("--poll", type=float, default=1.0, help="Seconds between looks (default: %(default)s).")
        parser.add_argument("--until-idle", action="store_true", help="End when no task is due.")

    def handle(self, *args: Any, **options: Any) -> None:
        alias = options["store"]
        if alias is not None and alias not in stores:
            raise CommandError(f"there is no store {alias!r}; STATESTORES has {', '.join(stores)}")
        if not options["poll"] > 0:
            raise CommandError("--poll must be more than zero")
        stop = threading.Event()

        def ask_to_stop(number: int, frame: object) -> None:
            stop.set()
            signal.signal(number, signal.SIG_DFL)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, ask_to_stop)
        if options["verbosity"] >= 1:
            self.stdout.write("statestore_worker is waiting for durable tasks; Ctrl-C stops it after the step at hand")
        Worker(alias, stop.is_set, stop.wait).run(options["poll"], until_idle=options["until_idle"])
