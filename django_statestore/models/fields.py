"""The column types that must mean the same on every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive

if TYPE_CHECKING:
    _Digest = models.Field[Any, Any]
    _Text = models.TextField[Any, Any]
    _Instant = models.Field[Any, Any]
else:
    _Digest, _Text, _Instant = models.Field, models.TextField, models.Field

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DigestField(_Digest):
    """Hold 32 bytes, compared as bytes. No text type: Django would add a second index for LIKE."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return {"postgresql": "bytea", "sqlite": "blob"}.get(connection.vendor, "binary(32)")

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        value = super().get_db_prep_value(value, connection, prepared)
        return None if value is None else connection.Database.Binary(self.to_python(value))  # type: ignore[attr-defined]

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> bytes | None:
        return None if value is None else bytes(value)

    def to_python(self, value: Any) -> bytes | None:
        return bytes.fromhex(value) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        return str(self.value_from_object(obj).hex())


class ExactTextField(_Text):
    """Hold a key or name, compared byte by byte: no case folding, no padding, no locale."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "varbinary(1024)" if connection.vendor == "mysql" else "text"

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        parameters = dict(super().db_parameters(connection))
        if connection.vendor == "postgresql":
            parameters["collation"] = "C"
        return parameters

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> str | None:
        return value.decode() if isinstance(value, bytes) else value


class InstantField(_Instant):
    """Hold an instant of the store's clock: an aware datetime in Python.

    On SQLite it is milliseconds since 1970 in UTC, a number, so that its own clock can make and compare it.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return {"postgresql": "timestamp with time zone", "sqlite": "integer"}.get(connection.vendor, "datetime(6)")

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        value = self.to_python(super().get_db_prep_value(value, connection, prepared))
        if value is None:
            return None
        if connection.vendor == "sqlite":
            return (value - _EPOCH) // timedelta(milliseconds=1)
        return connection.ops.adapt_datetimefield_value(value)

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> datetime | None:
        return instant(value)

    def to_python(self, value: Any) -> datetime | None:
        if isinstance(value, str):
            value = parse_datetime(value)
        if value is None:
            return None
        if not isinstance(value, datetime) or is_naive(value):
            raise ValueError(f"{self.name} is an instant: give an aware datetime")
        return value

    def value_to_string(self, obj: models.Model) -> str:
        value: datetime | None = self.value_from_object(obj)
        return "" if value is None else value.isoformat()


def instant(value: Any) -> datetime | None:
    """Return an instant as a database returned it, as an aware datetime in UTC."""
    if value is None:
        return None
    if isinstance(value, int):
        return _EPOCH + timedelta(milliseconds=value)
    aware: datetime = value.replace(tzinfo=UTC) if is_naive(value) else value.astimezone(UTC)
    return aware
