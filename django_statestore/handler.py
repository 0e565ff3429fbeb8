"""``stores[alias]``: the stores that ``STATESTORES`` defines, made when first asked for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from .backends.base import BaseBackend
from .exceptions import StoreDoesNotExist, StoreMisconfigured
from .store import Store

DEFAULT_ALIAS = "default"
DEFAULT_STORES = {DEFAULT_ALIAS: {"BACKEND": "django_statestore.backends.database.DatabaseBackend"}}


class StoreHandler:
    """Map the aliases of ``STATESTORES`` to stores. One store serves all threads and event loops."""

    def __init__(self) -> None:
        self._stores: dict[str, Store] = {}
        setting_changed.connect(self._reset)

    @property
    def configuration(self) -> dict[str, dict[str, Any]]:
        """Return the setting, or what stands for it where there is none."""
        configuration: dict[str, dict[str, Any]] = getattr(settings, "STATESTORES", DEFAULT_STORES)
        if not isinstance(configuration, dict):
            raise StoreMisconfigured("STATESTORES must be a dict")
        return configuration

    def __getitem__(self, alias: str) -> Store:
        try:
            return self._stores[alias]
        except KeyError:
            pass
        # No lock, which a fork could copy held: two threads may both make a store, and one of the two is kept.
        return self._stores.setdefault(alias, create_backend(alias, self.configuration).store())

    def __iter__(self) -> Iterator[str]:
        return iter(self.configuration)

    def __len__(self) -> int:
        return len(self.configuration)

    def __contains__(self, alias: object) -> bool:
        return alias in self.configuration

    def all(self) -> list[Store]:
        """Return every store, making those that were not used yet."""
        return [self[alias] for alias in self]

    def _reset(self, *, setting: str, **kwargs: Any) -> None:
        if setting in {"STATESTORES", "DATABASES"}:
            self._stores.clear()


def create_backend(alias: str, configuration: dict[str, dict[str, Any]]) -> BaseBackend:
    """Return a new backend for ``alias``; ``StoreMisconfigured`` names what is wrong by its settings path."""
    if alias not in configuration:
        raise StoreDoesNotExist(alias)
    path = f"STATESTORES[{alias!r}]"
    parameters = dict(_checked(configuration[alias], path))
    dotted, options = parameters.pop("BACKEND", None), parameters.pop("OPTIONS", {})
    if parameters:
        raise StoreMisconfigured(f"{path}[{next(iter(parameters))!r}] is unknown; known are BACKEND and OPTIONS")
    if not isinstance(dotted, str):
        raise StoreMisconfigured(f"{path}['BACKEND'] must be the dotted path of a backend class")
    try:
        backend_class = import_string(dotted)
    except ImportError as error:
        raise StoreMisconfigured(f"{path}['BACKEND'] cannot be imported: {error}") from error
    if not (isinstance(backend_class, type) and issubclass(backend_class, BaseBackend)):
        raise StoreMisconfigured(f"{path}['BACKEND'] is not a backend class")
    known = _options(backend_class)
    for name in _checked(options, f"{path}['OPTIONS']"):
        if name not in known:
            raise StoreMisconfigured(f"{path}['OPTIONS'][{name!r}] is unknown; known are {', '.join(sorted(known))}")
    return backend_class(alias=alias, **options)


def _checked(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise StoreMisconfigured(f"{path} must be a dict")
    return value


def _options(backend_class: type[BaseBackend]) -> set[str]:
    """Return the keyword arguments of a backend; with ``**options`` it takes those of its base class too."""
    known: set[str] = set()
    for each in backend_class.__mro__:
        if "__init__" in vars(each):
            parameters = inspect.signature(each).parameters.values()
            known.update(parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD)
            if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
                break
    return known - {"alias"}
