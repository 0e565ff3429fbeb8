"""Run Celery's command line for as long as somebody holds the other end of standard input.

`python -m testproject.demo.attended worker ...`: whoever started it may even be killed, and leaves no process behind.
"""

import os
import signal
import sys
import threading

from celery.__main__ import main


def _watch() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_watch, daemon=True).start()
    sys.exit(main())
