"""The settings of `manage.py demo`: SQLite alone, a broker of its own, and short times: there is little to wait for."""

import os
from pathlib import Path

os.environ.setdefault("STATESTORE_BROKER", str(Path(__file__).resolve().parent.parent / ".demo"))
os.environ.pop("STATESTORE_POSTGRES_URL", None)

from testproject.settings import *  # noqa: F403

DEBUG = False
STATESTORE = {"LEASE": 3, "SWEEP_EVERY": 1, "NOTIFY_GRACE": 5}
