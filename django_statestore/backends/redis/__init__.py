"""The Redis backend: Redis 6.2 or later, and Valkey, by a URL or a django-redis cache alias; async is native."""

from ...exceptions import StoreMisconfigured

try:
    import redis as _redis  # noqa: F401
except ImportError as _error:

    class MissingPackage(StoreMisconfigured, ImportError):
        """The package redis is not installed."""

    raise MissingPackage("the package redis is missing: install django-statestore[redis]") from _error

from .backend import RedisBackend

__all__ = ["RedisBackend"]
