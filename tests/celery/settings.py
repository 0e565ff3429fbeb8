"""The test project, as the worker processes of these tests see it: with the tests' durable tasks."""

import json
import os

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.celery"]
STATESTORE = json.loads(os.environ.get("STATESTORE_TEST_SETTINGS", "{}"))
