"""A runnable project around the app: for the demo, for the tests, and to look at the admin."""

from importlib.util import find_spec

if find_spec("celery"):
    from testproject.celery import app as celery_app

    __all__ = ["celery_app"]
