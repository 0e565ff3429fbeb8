"""Use the installed app in the smallest project: Django, SQLite, and no setting but the app."""

import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_statestore"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "smoke.sqlite3"}},
    USE_TZ=True,
)
django.setup()
call_command("check", fail_level="ERROR")
call_command("migrate", verbosity=0)

from django_statestore import store  # noqa: E402

store.kv.set("smoke", {"number": 1})
assert store.kv.consume("smoke") == {"number": 1}
assert store.kv.get("smoke") is None
print("the installed app works")
