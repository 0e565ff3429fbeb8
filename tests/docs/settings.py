"""The test project with one more app, `shop`: the one that the reader of a page writes."""

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "shop"]
STATESTORE = {"HINTS": False}  # the pages run statestore_worker, no Celery
