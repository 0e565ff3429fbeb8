"""What the system checks say of a store on Redis: of its settings always, of its server where that may be asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import redis.connection
from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Warning

from ...exceptions import StoreMisconfigured, StoreUnavailable
from ...flow import Flow, run
from .command import Command, raw
from .location import Location
from .server import Server

_OLDEST = (6, 2)
_RETRIES = ("retry", "retry_on_error", "retry_on_timeout")


# -- the settings -----------------------------------------------------------------------------------------------------


def check_settings(store: str, location: Location, cache: str | None) -> list[CheckMessage]:
    """Return what is wrong with the settings of a store; ``cache``: the alias whose server it uses."""
    messages: list[CheckMessage] = []
    if cache == "default":
        messages.append(
            Warning(
                f"{store} keeps its state in CACHES['default']: clearing that cache (cache.clear() is FLUSHDB) removes "
                "all of it.",
                hint="Define a cache alias for the state alone, on a server or database of its own.",
                id="statestore.W010",
            )
        )
    others = [alias for alias in settings.CACHES if alias != cache and _place(location.url) in _places_of(alias)]
    if others:
        messages.append(
            Warning(
                f"{store} shares a database with CACHES[{others[0]!r}]: clearing that cache (FLUSHDB) removes the "
                "state, and what the cache holds may push it out of memory.",
                hint="Give the state another server, or at least another database number in the URL.",
                id="statestore.W011",
            )
        )
    if cache is not None and (set_ := _retries_of(cache, location)):
        messages.append(
            Warning(
                f"CACHES[{cache!r}] sets {', '.join(set_)}, which {store} does not follow: a write that is repeated "
                "after its answer was lost may take effect twice.",
                hint="Remove it from the alias that holds state; the store itself repeats reads, and no write.",
                id="statestore.W012",
            )
        )
    return messages


def _places_of(alias: str) -> list[tuple[Any, ...]]:
    cache: Mapping[str, Any] = settings.CACHES[alias]
    location = cache.get("LOCATION") or ""
    urls = location.replace(";", ",").split(",") if isinstance(location, str) else list(location)
    return [_place(url, (cache.get("OPTIONS") or {}).get("db")) for url in urls if "://" in str(url)]


def _place(url: str, database: Any = None) -> tuple[Any, ...]:
    """Return which database of which server a URL names."""
    try:
        parsed: Any = redis.connection.parse_url(str(url).strip())  # type: ignore[no-untyped-call,unused-ignore]
    except ValueError:
        return (url,)
    host = str(parsed.get("host", "localhost")).lower()
    server = parsed.get("path") or ("127.0.0.1" if host in ("localhost", "::1") else host, parsed.get("port", 6379))
    return (server, int(parsed.get("db") or database or 0))


def _retries_of(alias: str, location: Location) -> list[str]:
    options: Mapping[str, Any] = settings.CACHES[alias].get("OPTIONS") or {}
    given: Mapping[str, Any] = options.get("CONNECTION_POOL_KWARGS") or {}
    query = parse_qs(urlsplit(location.url).query)
    return [name for name in _RETRIES if given.get(name) or query.get(name, ["false"])[-1].lower() in ("true", "1")]


# -- the server -------------------------------------------------------------------------------------------------------


def check_server(store: str, server: Server) -> list[CheckMessage]:
    """Return what is wrong with the server, or with a node of the cluster. That it does not answer is no error."""
    try:
        nodes = run(_asked(server))
    except StoreUnavailable as error:
        return [
            Warning(
                f"{store} could not be checked: {error}.",
                hint="Start the server, or correct its address, and run the check again.",
                id="statestore.W013",
            )
        ]
    messages: dict[str | None, CheckMessage] = {}
    for node in nodes:
        for message in _messages_of(store, *node):
            messages.setdefault(message.id, message)
    return list(messages.values())


def _asked(server: Server) -> Flow[Sequence[tuple[Mapping[str, str], str]]]:
    """Ask every node; return what INFO says, and how it flushes its log, "" where we may not know."""
    found = []
    info = Command("INFO", [], [], raw, writes=False)
    flush = Command("CONFIG GET", [], ["appendfsync"], raw, writes=False)
    for node in (yield from server.primaries()):
        (text,) = yield from server.do_at(node, [info])
        lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
        try:
            ((_, policy),) = yield from server.do_at(node, [flush])
        except (StoreMisconfigured, ValueError):  # servers for hire hide their configuration
            policy = b""
        found.append(({name: value for name, _, value in lines}, policy.decode()))
    return found


def _messages_of(store: str, info: Mapping[str, str], flush: str) -> Iterator[CheckMessage]:
    version = info.get("redis_version", "")
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST:
        yield Error(
            f"{store} is on Redis {version}, which lacks commands that are needed.",
            hint="Use Redis 6.2 or later, or Valkey.",
            id="statestore.E010",
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory", "0") != "0" and policy != "noeviction":
        yield Warning(
            f"{store} is on a server that removes keys when its memory is full (maxmemory-policy {policy}): locks, "
            "dedup windows and queues would vanish without a word.",
            hint="Set maxmemory-policy to noeviction: writes then fail and say why; or give the state its own server.",
            id="statestore.W014",
        )
    if info.get("aof_enabled", "1") == "0":
        yield Warning(
            f"{store} is on a server without an append-only file: when it ends, what was written since its last "
            "snapshot is lost, checkpoints of durable tasks too.",
            hint="Set appendonly to yes, and appendfsync to always where store.durable is used. Where nothing needs to "
            "outlive the server, silence this check.",
            id="statestore.W015",
        )
    elif flush not in ("", "always"):
        yield Info(
            f"{store} is on a server that flushes its append-only file later than it answers (appendfsync {flush}): "
            "a power cut may take the last writes with it.",
            hint="Set appendfsync to always where store.durable is used.",
            id="statestore.I010",
        )
