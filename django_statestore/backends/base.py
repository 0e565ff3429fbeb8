"""What every backend has in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from django.core.checks import CheckMessage

from ..exceptions import InvalidKey, NotSupported, StoreMisconfigured
from ..keys import Namespace, encode_namespace

if TYPE_CHECKING:
    from ..store import Store


class BaseBackend:
    """Keep state. A subclass also inherits the primitives of each contract that it supports.

    The keyword arguments of ``__init__`` are the ``OPTIONS`` of the store. What backends may differ in they declare by
    the attributes here; the conformance kit holds each to what it declares.
    """

    joins_transactions: ClassVar[bool] = False
    """Writes belong to the caller's transaction and are rolled back with it; what must be durable is refused in one."""

    outlives_process: ClassVar[bool] = False
    """What is kept is there for other processes, and after this one has ended."""

    def __init__(self, *, alias: str = "", namespace: str | Sequence[str] = ()) -> None:
        self.alias = alias
        if not isinstance(namespace, Sequence):
            raise StoreMisconfigured(f"{self.option('namespace')} must be a name, or a sequence of names")
        names = (namespace,) if isinstance(namespace, str) else tuple(namespace)
        try:
            encode_namespace(names)
        except InvalidKey as error:
            raise StoreMisconfigured(f"{self.option('namespace')}: {error}") from None
        self.names: Namespace = names

    def option(self, name: str) -> str:
        """Return the settings path of an option, for messages."""
        return f"STATESTORES[{self.alias!r}]['OPTIONS'][{name!r}]" if self.alias else name

    def store(self) -> Store:
        """Return the store of this backend, at the namespace that its options name."""
        from ..store import Store

        return Store(self, self.names)

    def age(self, namespace: str, milliseconds: int) -> None:
        """Move every instant of exactly this namespace into the past, for tests; fences stay as they are."""
        raise NotSupported(f"{type(self).__name__} cannot let time pass for a test")

    def check(self) -> list[CheckMessage]:
        """Return what the system check framework should say about this backend."""
        return []

    def check_server(self) -> list[CheckMessage]:
        """Return what it should say about the server behind it, which is asked only where databases are too."""
        return []
