"""Where the server is: a URL, or what a django-redis cache alias says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio.connection
import redis.asyncio.retry
import redis.connection
import redis.retry
from django.conf import settings
from django.utils.module_loading import import_string
from redis.backoff import NoBackoff

from ...exceptions import StoreMisconfigured
from .pool import Pool

CONNECTIONS = 100
"""The most connections of a process to one server, and of an event loop, unless the settings say otherwise."""

_SECONDS = 5.0

# RESP 2: version 3 lets redis-py take a closed connection for one with news.
_OURS: Mapping[str, Any] = {
    "decode_responses": False,
    "encoding": "utf-8",
    "encoding_errors": "strict",
    "protocol": 2,
    "retry_on_error": [],
    "retry_on_timeout": False,
}
_NOT_OURS = {
    "cache",
    "cache_config",
    "connection_class",
    "maint_notifications_config",
    "parser_class",
    "retry",
    "timeout",
}

# The options of django-redis that connections take, and the clients that are not for one server.
_NAMED = {
    "USERNAME": "username",
    "PASSWORD": "password",
    "SOCKET_TIMEOUT": "socket_timeout",
    "SOCKET_CONNECT_TIMEOUT": "socket_connect_timeout",
}
_FOREIGN = re.compile("sentinel|shard", re.IGNORECASE)


@dataclass(frozen=True)
class Location:
    """Say how connections to a server are made; each of them has no retries."""

    url: str = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    where: str
    """The server as messages name it: by the setting."""
    prefix: str = ""
    """What the cache alias puts before all of its keys."""
    others: Sequence[str] = field(default=(), repr=False)
    """More addresses: of other nodes, where this is a cluster."""

    def pool(self, **changes: Any) -> Pool:
        """Return a pool of blocking connections; ``changes``, such as another host, come last."""
        arguments = self._arguments(redis.connection.parse_url(self.url), changes)  # type: ignore[no-untyped-call,unused-ignore]
        retry = redis.retry.Retry(NoBackoff(), 0)
        return Pool(retry=retry, timeout=_SECONDS, **arguments)

    def async_pool(self, **changes: Any) -> Any:
        """Return a pool of asynchronous connections, for one event loop. Its user keeps to ``seconds`` by himself.

        For that redis-py uses ``asyncio.wait_for``, which before Python 3.12 may swallow a cancellation.
        """
        arguments = self._arguments(redis.asyncio.connection.parse_url(self.url), changes) | {"socket_timeout": None}
        retry = redis.asyncio.retry.Retry(NoBackoff(), 0)
        pool: Any = redis.asyncio.connection.BlockingConnectionPool  # half of redis-py has no types
        return pool(retry=retry, timeout=_SECONDS, **arguments)

    @property
    def seconds(self) -> float | None:
        """Return how long an answer may take; None: for ever."""
        arguments = self._arguments(redis.connection.parse_url(self.url), {})  # type: ignore[no-untyped-call,unused-ignore]
        seconds: float | None = arguments["socket_timeout"]
        return seconds

    def _arguments(self, parsed: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in self.options.items() if name not in _NOT_OURS}
        arguments = {
            "socket_timeout": _SECONDS, "socket_connect_timeout": _SECONDS, "max_connections": CONNECTIONS,
        } | given  # fmt: skip
        # The URL's own connection class is the one for its scheme.
        arguments |= {name: value for name, value in parsed.items() if name not in _NOT_OURS - {"connection_class"}}
        return arguments | dict(_OURS) | dict(changes)


def from_url(url: object, option: str) -> Location:
    """Return the location that a URL names."""
    return _usable(Location(str(url), {}, f"the Redis that {option} names"), option)


def from_cache(alias: object, option: str) -> Location:
    """Return the location of a django-redis cache alias: its address, client and connection settings, our retries."""
    if alias not in settings.CACHES:
        raise StoreMisconfigured(f"{option} names {alias!r}, which CACHES does not define")
    cache: Mapping[str, Any] = settings.CACHES[alias]
    path, options = f"CACHES[{alias!r}]", cache.get("OPTIONS", {})
    try:
        from django_redis.cache import RedisCache

        backend = import_string(cache["BACKEND"])
    except ImportError as error:
        raise StoreMisconfigured(f"{option} names a cache that cannot be imported: {error}") from error
    if not (isinstance(backend, type) and issubclass(backend, RedisCache)):
        raise StoreMisconfigured(f"{option} names {alias!r}, which is no django-redis cache")
    for name in ("CLIENT_CLASS", "CONNECTION_FACTORY"):
        if _FOREIGN.search(str(options.get(name))):
            raise StoreMisconfigured(
                f"{path}['OPTIONS'][{name!r}] is not for state: use an alias that names one server"
            )
    urls = cache.get("LOCATION") or ""
    # The first of several is the primary; replicas would answer with what is past.
    url, *others = urls.split(",") if isinstance(urls, str) else list(urls) or [""]
    given = {ours: options[theirs] for theirs, ours in _NAMED.items() if options.get(theirs)}
    given |= options.get("CONNECTION_POOL_KWARGS", {})
    prefix = str(cache.get("KEY_PREFIX") or "")
    location = Location(url, given, f"the Redis of {path}", f"{prefix}:" if prefix else "", others)
    return _usable(location, f"{path}['LOCATION']")


def _usable(location: Location, option: str) -> Location:
    """Return the location, or refuse it if no connection can be described by it; nothing is opened."""
    try:
        pool = location.pool()
        pool.connection_class(**pool.connection_kwargs)
    except ValueError:  # its text may show the password
        raise StoreMisconfigured(f"{option} must be a URL: redis://, rediss:// or unix://") from None
    except TypeError as error:
        raise StoreMisconfigured(f"{option} has an option that redis-py does not know: {error}") from None
    return location
