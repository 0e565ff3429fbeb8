"""State for agents, bots and long jobs in a Django project, on its own databases.

``store`` is ``stores["default"]``; settings are read when a store is first used, not when it is imported.
"""

from __future__ import annotations

from typing import cast

from django.utils.connection import ConnectionProxy

from .handler import DEFAULT_ALIAS, StoreHandler
from .store import Store

__all__ = ["Store", "store", "stores"]
__version__ = "0.1.0"

stores = StoreHandler()
store = cast(Store, ConnectionProxy(stores, DEFAULT_ALIAS))  # type: ignore[arg-type]
