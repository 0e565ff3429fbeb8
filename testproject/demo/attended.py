"""Run Celery or a management command for as long as somebody holds the other end of standard input.

`python -m testproject.demo.attended celery worker ...`, `... manage.py runserver ...`: whoever started it may even be
killed, and leaves no process behind.
"""

import os
import signal
import sys
import threading


def _watch() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGKILL)


def _run() -> None:
    program = sys.argv.pop(1)
    if program == "celery":
        from celery.__main__ import main

        main()
    else:
        from django.core.management import execute_from_command_line

        execute_from_command_line([program, *sys.argv[1:]])


if __name__ == "__main__":
    threading.Thread(target=_watch, daemon=True).start()
    _run()
