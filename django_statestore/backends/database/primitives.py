"""What the primitives of all facets on a database are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ...flow import Action, Call
from ...keys import Entry
from .connection import Database, Parameters, Row

T = TypeVar("T")
P = ParamSpec("P")
Self = TypeVar("Self", bound="DatabasePrimitives")


class DatabasePrimitives:
    """Give the mixins of the facets their database."""

    database: Database

    def rows(self, template: str, parameters: Parameters) -> list[Row]:
        return self.database.execute(template, parameters)

    def row(self, template: str, parameters: Parameters) -> Row | None:
        rows = self.database.execute(template, parameters)
        return rows[0] if rows else None

    def touched(self, template: str, parameters: Parameters) -> bool:
        """Send a statement that returns a row for each one it changed, and return whether it changed any."""
        return bool(self.database.execute(template, parameters))

    def can_renew(self) -> Action[bool]:
        return Call(lambda: self.database.renews)

    def release_thread(self) -> None:
        self.database.connection.close()


Primitive = Callable[Concatenate[Self, P], T]
ActionPrimitive = Callable[Concatenate[Self, P], Action[T]]


def _unit(
    function: Primitive[Self, P, T], *, writes: bool = True, repeatable: bool = False, durable: bool = False
) -> ActionPrimitive[Self, P, T]:
    def primitive(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> Action[T]:
        def work() -> T:
            if durable:
                self.database.require_durable(name)
            return self.database.attempt(lambda: function(self, *args, **kwargs), repeatable=repeatable, writes=writes)

        return Call(work)

    facet, _, operation = function.__name__.partition("_")
    name = "driving or repairing a durable task" if facet == "task" else f"{facet}.{operation}"
    functools.update_wrapper(primitive, function)
    return primitive


def reads(function: Primitive[Self, P, T]) -> ActionPrimitive[Self, P, T]:
    """Make a primitive of a method that only reads: repeated once when the connection broke."""
    return _unit(function, writes=False, repeatable=True)


def writes(function: Primitive[Self, P, T]) -> ActionPrimitive[Self, P, T]:
    """Make a primitive of a method that writes and joins the caller's transaction."""
    return _unit(function)


def commits(function: Primitive[Self, P, T]) -> ActionPrimitive[Self, P, T]:
    """Make a primitive of a method whose write must be durable when it returns: no open transaction."""
    return _unit(function, durable=True)


def commits_repeatably(function: Primitive[Self, P, T]) -> ActionPrimitive[Self, P, T]:
    """Make the same of a write that takes effect once, however often it is sent (it names a token or a fence)."""
    return _unit(function, repeatable=True, durable=True)


def identity(entry: Entry) -> dict[str, Any]:
    """Return the parameters that every row's identity takes."""
    return {"id": entry.digest, "namespace": entry.namespace, "key": entry.key}
