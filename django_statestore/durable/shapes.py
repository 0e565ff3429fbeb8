"""Convert values of one type each between themselves and the plain values that stand for them.

A converter is looked up by the exact type of what it gets. So ``bool`` is no ``int``, a subclass is not its base, and
the members of a union are told apart without trying one after the other.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from operator import attrgetter
from typing import Any
from uuid import UUID

from .._paths import Step

Convert = Callable[[Any], Any]

KEPT = (str, int, float, bool, types.NoneType, bytes, datetime, date, time, timedelta, Decimal, UUID)
"""The types whose values the codec takes as they are."""


class Mismatch(Exception):
    """A value is not of the declared type; ``steps`` is the way to it, innermost first."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.steps: list[Step] = []
        super().__init__(problem)


class Unheld(Exception):
    """Why an annotation has no shape; the field that has it adds its name."""


class Converters(dict[type, Convert | None]):
    """Map the exact type of a value to what converts it; ``None``: it stays as it is."""

    def __init__(self, expected: str, converters: Mapping[type, Convert | None]) -> None:
        self.expected = expected
        super().__init__(converters)

    def __missing__(self, kind: type) -> Convert | None:
        raise Mismatch(f"expected {self.expected}, got {kind.__qualname__}")

    def convert(self, value: Any) -> Any:
        """Return the value converted; raises ``Mismatch``."""
        convert = self[type(value)]
        return value if convert is None else convert(value)


class _Untouched(Converters):
    """Leave every value as it is: the codec decides."""

    def __missing__(self, kind: type) -> None:
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """Hold the converters of one type: ``dump`` by the type of the value, ``load`` by that of the plain value."""

    name: str
    dump: Converters
    load: Converters


def shape(name: str, dump: Mapping[type, Convert | None], load: Mapping[type, Convert | None]) -> Shape:
    """Make a shape whose errors say that ``name`` was expected."""
    return Shape(name, Converters(name, dump), Converters(name, load))


ANYTHING = Shape("any value", _Untouched("any value", {}), _Untouched("any value", {}))
"""The shape of ``Any``."""


def dump_fields(fields: list[tuple[str, Converters]]) -> Convert:
    """Make what turns an instance into a dict of its fields; they may be filled in later."""

    def dump(state: Any) -> dict[str, Any]:
        plain = {}
        name = ""
        try:
            for name, converters in fields:
                value = getattr(state, name)
                convert = converters[type(value)]
                plain[name] = value if convert is None else convert(value)
        except Mismatch as mismatch:
            mismatch.steps.append(name)
            raise
        return plain

    return dump


def load_fields(cls: type, fields: dict[str, Converters], required: list[str]) -> Convert:
    """Make what turns a dict of fields into an instance; a field that is not required may be missing."""

    def load(plain: dict[str, Any]) -> Any:
        members = {}
        name = ""
        try:
            for name, value in plain.items():
                if name not in fields:
                    raise Mismatch(f"{cls.__qualname__} has no such field")
                convert = fields[name][type(value)]
                members[name] = value if convert is None else convert(value)
            if len(members) != len(fields):
                for name in required:
                    if name not in members:
                        raise Mismatch(f"is missing, and {cls.__qualname__} has no default for it")
        except Mismatch as mismatch:
            mismatch.steps.append(name)
            raise
        try:
            return cls(**members)
        except Exception as error:
            raise Mismatch(f"{cls.__qualname__} raised {type(error).__qualname__} on its members") from error

    return load


def _each(converters: Converters, build: Callable[[list[Any]], Any] | None = None) -> Convert:
    """Convert the elements of a list or a tuple, and make of the new list what ``build`` makes."""

    def convert_each(values: Iterable[Any]) -> Any:
        done: list[Any] = []
        try:
            for value in values:
                convert = converters[type(value)]
                done.append(value if convert is None else convert(value))
        except Mismatch as mismatch:
            mismatch.steps.append(len(done))
            raise
        return done if build is None else build(done)

    return convert_each


def collection_of(kind: type, element: Shape) -> Shape:
    """Make the shape of a list, set or frozenset."""
    name = f"{kind.__name__}[{element.name}]"
    if kind is list:
        return shape(name, {list: _each(element.dump)}, {list: _each(element.load)})
    if not all(plain in KEPT for plain in element.load):
        raise Unheld("the elements of a set must be of plain types or enums")
    return shape(name, {kind: _set_of(element.dump, kind)}, {kind: _set_of(element.load, kind)})


def _set_of(converters: Converters, kind: type) -> Convert:
    def convert_each(values: Iterable[Any]) -> Any:
        try:
            return kind(map(converters.convert, values))
        except Mismatch as mismatch:
            mismatch.steps.append(None)
            raise

    return convert_each


def tuple_of(element: Shape) -> Shape:
    """Make the shape of a tuple of any length."""
    # A tuple is a list in the plain value, which the codec writes faster than a tuple: the annotation knows better.
    name = f"tuple[{element.name}, ...]"
    return shape(name, {tuple: _each(element.dump)}, {list: _each(element.load, tuple)})


def fixed_tuple(elements: list[Shape]) -> Shape:
    """Make the shape of a tuple with one type for each place."""
    name = f"tuple[{', '.join(element.name for element in elements) or '()'}]"

    def fixed(converters: list[Converters], build: Callable[[list[Any]], Any]) -> Convert:
        def convert_each(values: Any) -> Any:
            if len(values) != len(converters):
                raise Mismatch(f"expected {name}, got {len(values)} elements")
            done: list[Any] = []
            try:
                for convert, value in zip(converters, values, strict=True):
                    done.append(convert.convert(value))
            except Mismatch as mismatch:
                mismatch.steps.append(len(done))
                raise
            return build(done)

        return convert_each

    dump = fixed([element.dump for element in elements], list)
    return shape(name, {tuple: dump}, {list: fixed([element.load for element in elements], tuple)})


def dict_of(element: Shape) -> Shape:
    """Make the shape of a dict with keys of type ``str``."""

    def each(converters: Converters) -> Convert:
        def convert_each(values: dict[Any, Any]) -> dict[str, Any]:
            done = {}
            for key, value in values.items():
                if type(key) is not str:
                    raise Mismatch(f"expected keys of type str, got {type(key).__qualname__}")
                try:
                    done[key] = converters.convert(value)
                except Mismatch as mismatch:
                    mismatch.steps.append(key)
                    raise
            return done

        return convert_each

    return shape(f"dict[str, {element.name}]", {dict: each(element.dump)}, {dict: each(element.load)})


def enum_of(cls: type[Enum]) -> Shape:
    """Make the shape of an enum, whose members stand as their values."""
    kinds = {type(member.value) for member in cls.__members__.values()}
    if not kinds or not kinds <= set(KEPT):
        raise Unheld(f"{cls.__qualname__} must have members, and their values must be of plain types")

    def load(plain: Any) -> Enum:
        try:
            return cls(plain)
        except Exception:
            raise Mismatch(f"expected {cls.__qualname__}, got a {type(plain).__qualname__} of no member") from None

    return shape(cls.__qualname__, {cls: attrgetter("value")}, dict.fromkeys(kinds, load))


def literal(choices: tuple[Any, ...]) -> Shape:
    """Make the shape of a ``Literal``; ``True`` is not ``1`` here either."""
    kinds = {type(choice) for choice in choices}
    if not kinds <= set(KEPT):
        raise Unheld("the choices of a Literal must be of plain types; annotate an enum by its class")
    name = f"Literal[{', '.join(map(repr, choices))}]"

    def check(kind: type) -> Convert:
        allowed = frozenset(choice for choice in choices if type(choice) is kind)

        def convert(value: Any) -> Any:
            if value not in allowed:
                raise Mismatch(f"expected {name}, got another {kind.__qualname__}")
            return value

        return convert

    checks = {kind: check(kind) for kind in kinds}
    return shape(name, checks, checks)


def union(members: list[Shape]) -> Shape:
    """Make one shape of several that differ in the types of their values and of their plain values."""
    if any(member is ANYTHING for member in members):
        return ANYTHING
    name = " | ".join(member.name for member in members)
    dump: dict[type, Convert | None] = {}
    load: dict[type, Convert | None] = {}
    for member in members:
        if dump.keys() & member.dump.keys() or load.keys() & member.load.keys():
            raise Unheld(f"the stored form of {member.name} looks like that of another member of the union")
        dump |= member.dump
        load |= member.load
    return shape(name, dump, load)
