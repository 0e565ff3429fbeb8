"""Time for tests: no sleeping, and no patched clock."""

from __future__ import annotations

from ..keys import encode_namespace
from ..store import Store
from ..ttl import Duration, milliseconds


def age(store: Store, delta: Duration) -> None:
    """Let ``delta`` seconds pass for everything in exactly the namespace of ``store``.

    Every expiry, lease, back-off, deadline and retention comes that much nearer. Fences stay as they are. What a
    process reckons by its own clock, such as ``Lock.expires_in``, does not change.
    """
    store.backend.age(encode_namespace(store.names), milliseconds(delta, "delta"))
