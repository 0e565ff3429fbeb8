"""Settings of a runnable project around the app; the environment says where the state lives.

STATESTORE_SQLITE        the SQLite file of the `default` database (db.sqlite3 beside manage.py)
STATESTORE_POSTGRES_URL  postgresql://user:password@host:port/name; adds the database and the store `postgres`
STATESTORE_REDIS_URL     redis://host:port/db or unix:///path; adds the store `redis`
STATESTORE_REDIS7_URL    the same for the store `redis7`
STATESTORE_TEST_DIR      the folder of the SQLite test database (the system's folder for temporary files)
STATESTORE_BROKER        the folder of Celery's messages (.broker beside manage.py)
STATESTORE_DEBUG         0 switches DEBUG off
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import django

from testproject.databases import postgres, sqlite

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = "a fixed key, for this test project only"  # noqa: S105
DEBUG = os.environ.get("STATESTORE_DEBUG", "1") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
ROOT_URLCONF = "testproject.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_statestore",
    "testproject.demo",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
if django.VERSION >= (6, 0):
    # The admin pages of the app must do without inline scripts and styles.
    MIDDLEWARE.append("django.middleware.csp.ContentSecurityPolicyMiddleware")
    SECURE_CSP = {"default-src": ["'self'"], "img-src": ["'self'", "data:"]}

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES: dict[str, dict[str, Any]] = {
    "default": sqlite(
        os.environ.get("STATESTORE_SQLITE", BASE_DIR / "db.sqlite3"),
        test_folder=os.environ.get("STATESTORE_TEST_DIR", tempfile.gettempdir()),
    )
}
STATESTORES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django_statestore.backends.database.DatabaseBackend",
        "OPTIONS": {"database": "default"},
    }
}
if postgres_url := os.environ.get("STATESTORE_POSTGRES_URL"):
    DATABASES["postgres"] = postgres(postgres_url)
    STATESTORES["postgres"] = {
        "BACKEND": "django_statestore.backends.database.DatabaseBackend",
        "OPTIONS": {"database": "postgres"},
    }
for name in ("redis", "redis7"):
    if redis_url := os.environ.get(f"STATESTORE_{name.upper()}_URL"):
        STATESTORES[name] = {
            "BACKEND": "django_statestore.backends.redis.RedisBackend",
            "OPTIONS": {"location": redis_url},
        }

# A broker without a server: each message is a file.
CELERY_BROKER_TRANSPORT = "testproject.broker:Transport"
BROKER = Path(os.environ.get("STATESTORE_BROKER", BASE_DIR / ".broker"))
CELERY_BROKER_URL = "filesystem://localhost"
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "data_folder_in": str(BROKER / "messages"),
    "data_folder_out": str(BROKER / "messages"),
    "processed_folder": str(BROKER / "processed"),
    "control_folder": str(BROKER / "control"),
    "store_processed": True,
    "polling_interval": 0.1,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False

USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
