"""The backend itself: its options, and the facets it is put together from."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.checks import CheckMessage
from django.db import connections

from ...exceptions import StoreMisconfigured
from ..base import BaseBackend
from .aging import AgingStatements
from .atomic import AtomicStatements
from .checks import check_database
from .connection import Database
from .dedup import DedupStatements
from .durable import DurableStatements
from .handoff import HandoffStatements
from .history import HistoryStatements
from .kv import KVStatements
from .listing import ListingStatements
from .lists import ListStatements
from .lock import LockStatements
from .mailbox import MailboxStatements
from .queue import QueueStatements
from .releases import ReleaseStatements
from .repairing import RepairStatements
from .requests import RequestStatements
from .spool import SpoolStatements
from .sweeping import SweepStatements


class DatabaseBackend(
    ListingStatements,
    KVStatements,
    ListStatements,
    LockStatements,
    DedupStatements,
    QueueStatements,
    HandoffStatements,
    SpoolStatements,
    DurableStatements,
    HistoryStatements,
    AtomicStatements,
    ReleaseStatements,
    RepairStatements,
    RequestStatements,
    MailboxStatements,
    SweepStatements,
    AgingStatements,
    BaseBackend,
):
    """Keep state in a database of the project: the strict store.

    ``database`` is the alias in ``DATABASES``. ``prepare``: prepare our own statements on PostgreSQL with psycopg 3;
    None (the default) does so unless ``DISABLE_SERVER_SIDE_CURSORS`` says that a transaction pooler stands before it.
    """

    joins_transactions = True
    outlives_process = True

    def __init__(
        self,
        *,
        alias: str = "",
        namespace: str | Sequence[str] = (),
        database: str = "default",
        prepare: bool | None = None,
    ) -> None:
        super().__init__(alias=alias, namespace=namespace)
        if database not in connections.settings:
            raise StoreMisconfigured(f"{self.option('database')} names {database!r}, which DATABASES does not define")
        if prepare not in (None, True, False):
            raise StoreMisconfigured(f"{self.option('prepare')} must be True, False or None")
        self.database = Database(database, prepare=prepare)

    def check(self) -> list[CheckMessage]:
        return check_database(self.database.connection)
