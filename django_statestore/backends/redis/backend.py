"""The backend itself: its options, and the facets it is put together from."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.checks import CheckMessage

from ...exceptions import StoreMisconfigured
from ..base import BaseBackend
from .aging import AgingCommands
from .checks import check_server, check_settings
from .cluster import ClusterServer
from .dedup import DedupCommands
from .durable import DurableCommands
from .handoff import HandoffCommands
from .kv import KVCommands
from .lists import ListCommands
from .location import from_cache, from_url
from .lock import LockCommands
from .names import Names
from .queue import QueueCommands
from .server import Server, SingleServer
from .spool import SpoolCommands


class RedisBackend(
    KVCommands,
    ListCommands,
    LockCommands,
    DedupCommands,
    QueueCommands,
    HandoffCommands,
    SpoolCommands,
    DurableCommands,
    AgingCommands,
    BaseBackend,
):
    """Keep state in Redis or Valkey. It does not roll back: what is written inside a transaction stays written.

    ``cache``: a django-redis alias in ``CACHES``, whose address, client and connection settings are used; or
    ``location``: a URL (``redis://``, ``rediss://``, ``unix://``). ``prefix`` begins the name of every key, after the
    ``KEY_PREFIX`` of the alias. ``cluster``: the address is that of a node of a cluster, whose others are found by it.

    Expiry is the server's own, in whole milliseconds: what expires may live up to one longer than its time, never less.
    """

    outlives_process = True

    def __init__(
        self,
        *,
        alias: str = "",
        namespace: str | Sequence[str] = (),
        cache: str | None = None,
        location: str | None = None,
        prefix: str = "statestore:",
        cluster: bool = False,
    ) -> None:
        super().__init__(alias=alias, namespace=namespace)
        if (cache is None) == (location is None):
            raise StoreMisconfigured(f"give either {self.option('cache')} or {self.option('location')}")
        if cache is not None:
            where = from_cache(cache, self.option("cache"))
        else:
            where = from_url(location, self.option("location"))
        if not isinstance(prefix, str) or not prefix or "{}" in prefix:
            raise StoreMisconfigured(f"{self.option('prefix')} must be text without '{{}}', and not empty")
        self.location, self._cache = where, cache
        self.names_of = Names(where.prefix + prefix)
        if not isinstance(cluster, bool):
            raise StoreMisconfigured(f"{self.option('cluster')} must be True or False")
        if cluster and "{" in where.prefix + prefix:
            raise StoreMisconfigured(
                f"{self.option('prefix')}, or KEY_PREFIX, holds '{{': a cluster would take it for a tag"
            )
        self.server: Server = ClusterServer(where, self.option("cluster")) if cluster else SingleServer(where)

    def check(self) -> list[CheckMessage]:
        return check_settings(f"STATESTORES[{self.alias!r}]", self.location, self._cache)

    def check_server(self) -> list[CheckMessage]:
        return check_server(f"STATESTORES[{self.alias!r}]", self.server)

    def close(self) -> None:
        """Close the blocking connections of this process; the next call makes new ones."""
        self.server.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop, which otherwise closes them as it ends."""
        await self.server.aclose()
