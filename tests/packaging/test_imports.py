"""What importing the package brings along."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

IMPORT = """
import sys
import django_statestore

heavy = ["celery", "django_redis", "django_statestore.models", "django.db.models", "redis", "rest_framework"]
print([name for name in heavy if name in sys.modules])
"""

TASKS_WITHOUT_CELERY = """
import sys
sys.modules["celery"] = None

import django
django.setup()
import django_statestore.tasks

print(django_statestore.tasks.__name__)
"""


def run(program: str) -> str:
    environment = {"DJANGO_SETTINGS_MODULE": "testproject.settings", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_is_light() -> None:
    assert run(IMPORT) == "[]"


def test_tasks_can_be_imported_without_celery() -> None:
    assert run(TASKS_WITHOUT_CELERY) == "django_statestore.tasks"
