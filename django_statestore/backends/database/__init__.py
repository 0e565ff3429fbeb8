"""The database backend: SQLite and PostgreSQL, through Django's own connections."""

from .backend import DatabaseBackend

__all__ = ["DatabaseBackend"]
