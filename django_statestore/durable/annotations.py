"""Compile the annotations of dataclasses, once, into shapes."""

from __future__ import annotations

import dataclasses
import types
from enum import Enum
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

from . import shapes
from .shapes import ANYTHING, KEPT, Converters, Shape, Unheld


class Undeclarable(Exception):
    """A dataclass has a field whose values would not come back the same."""


def shape_of(cls: type) -> Shape:
    """Compile a dataclass; raises ``Undeclarable``, which names the class and the field."""
    return _Compiler().dataclass(cls)


class _Compiler:
    """Compile each dataclass once, so that one may contain itself."""

    def __init__(self) -> None:
        self._dataclasses: dict[type, Shape] = {}

    def _of(self, hint: Any) -> Shape:
        if hint is Any or hint is object:
            return ANYTHING
        if isinstance(hint, NewType):
            return self._of(hint.__supertype__)
        origin, args = get_origin(hint), get_args(hint)
        if origin is Union or origin is types.UnionType:
            return shapes.union([self._of(arg) for arg in args])
        if origin is Literal:
            return shapes.literal(args)
        container = origin or hint
        if container is tuple:
            return self._tuple(args, bare=origin is None)
        if container in (list, set, frozenset):
            return shapes.collection_of(container, self._of(args[0]) if args else ANYTHING)
        if container is dict:
            if args and args[0] is not str:
                raise Unheld("the keys of a dict must be annotated str")
            return shapes.dict_of(self._of(args[1]) if args else ANYTHING)
        if hint in KEPT:
            return shapes.shape(_name(hint), {hint: None}, {hint: None})
        if isinstance(hint, type) and issubclass(hint, Enum):
            return shapes.enum_of(hint)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self.dataclass(hint)
        raise Unheld(
            "it is none of the types that come back the same: a dataclass, an enum, list, dict[str, ...], tuple, set, "
            "frozenset, Literal, a union of these, Any, or a plain type such as str, int, datetime or Decimal"
        )

    def _tuple(self, args: tuple[Any, ...], *, bare: bool) -> Shape:
        if bare:
            return shapes.tuple_of(ANYTHING)
        if len(args) == 2 and args[1] is ...:
            return shapes.tuple_of(self._of(args[0]))
        return shapes.fixed_tuple([self._of(arg) for arg in args])

    def dataclass(self, cls: type) -> Shape:
        known = self._dataclasses.get(cls)
        if known is not None:
            return known
        hints = _hints(cls)
        dumps: list[tuple[str, Converters]] = []
        loads: dict[str, Converters] = {}
        required: list[str] = []
        # Known before its fields are, for one of them may hold this class again.
        shape = self._dataclasses[cls] = shapes.shape(
            cls.__qualname__, {cls: shapes.dump_fields(dumps)}, {dict: shapes.load_fields(cls, loads, required)}
        )
        for field in dataclasses.fields(cls):
            inner = self._field(cls, field, hints[field.name])
            dumps.append((field.name, inner.dump))
            loads[field.name] = inner.load
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                required.append(field.name)
        return shape

    def _field(self, cls: type, field: dataclasses.Field[Any], hint: Any) -> Shape:
        where = f"{cls.__qualname__}.{field.name}"
        if not field.init:
            raise Undeclarable(f"{where} has init=False, so it cannot be read back: make it a property")
        try:
            return self._of(hint)
        except Unheld as error:
            problem = f"{where} is annotated {_name(hint)}: {error}"
        raise Undeclarable(problem)


def _hints(cls: type) -> dict[str, Any]:
    name = cls.__qualname__
    if not cls.__dataclass_params__.init:  # type: ignore[attr-defined]
        raise Undeclarable(f"{name} has init=False, but its generated __init__ is what reads a state back")
    try:
        hints = get_type_hints(cls)
    except Exception as error:
        raise Undeclarable(f"the annotations of {name} cannot be resolved: {error}") from error
    for member, hint in hints.items():
        if hint is dataclasses.InitVar or isinstance(hint, dataclasses.InitVar):
            raise Undeclarable(f"{name}.{member} is an InitVar, which is not kept: make it a field")
    return hints


def _name(hint: Any) -> str:
    return "None" if hint is types.NoneType else hint.__qualname__ if isinstance(hint, type) else str(hint)
