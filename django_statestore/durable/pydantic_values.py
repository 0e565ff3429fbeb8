"""Compare the values of a pydantic model with those that its JSON gives back, part by part."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, RootModel
from pydantic_core import TzInfo

from .._paths import Step

_MISSING = object()

_PLAIN = frozenset({str, int, bool, bytes, type(None)})
"""Types whose equal values are alike; most values of a state are of one of them, so they are looked at first."""


@dataclass(slots=True)
class Difference:
    """Say what would not come back; ``steps`` is the way to it, innermost first."""

    problem: str
    steps: list[Step] = field(default_factory=list)


def difference(value: Any, back: Any) -> Difference | None:
    """Return the first part of ``value`` that ``back`` lacks or has otherwise, or None if they are alike throughout.

    Alike is stricter than equal: ``True`` is not ``1``, and ``Decimal("1.0")`` not ``Decimal("1.00")``.
    """
    kind = type(value)
    if kind in _PLAIN and kind is type(back) and value == back:
        return None
    if kind is not type(back):
        what = "be left out" if back is _MISSING else f"come back as {type(back).__qualname__}"
        return Difference(f"a {kind.__qualname__} would {what}")
    if isinstance(value, RootModel):
        return difference(value.root, back.root)
    if isinstance(value, BaseModel):
        return _in_members(_fields(value), dict(_fields(back))) or _in_private(value, back)
    if dataclasses.is_dataclass(value):
        return _in_members(_attributes(value), dict(_attributes(back)))
    if isinstance(value, dict):
        return _in_dict(value, back)
    if isinstance(value, list | tuple):
        return _in_row(value, back)
    if isinstance(value, set | frozenset):
        return _in_set(value, back)
    if isinstance(value, datetime | time):
        return _of_moments(value, back)
    return None if _same(value, back) else Difference(f"a {kind.__qualname__} would not come back equal")


def _same(value: Any, back: Any) -> bool:
    if value is back:
        return True
    if isinstance(value, Decimal | float):
        return repr(value) == repr(back)
    try:
        return bool(value == back)
    except Exception:
        return False


def _of_moments(value: datetime | time, back: datetime | time) -> Difference | None:
    kind, zone = type(value).__qualname__, value.tzinfo
    if zone is not None and type(zone) not in (timezone, TzInfo):
        problem = f"a {kind} in a zone of type {type(zone).__qualname__} would come back with a fixed offset"
        return Difference(f"{problem}: use datetime.UTC")
    if value == back and value.utcoffset() == back.utcoffset() and (zone is not None or value.fold == back.fold):
        return None
    return Difference(f"a {kind} would not come back equal")


def _in_members(members: Iterable[tuple[str, Any]], others: dict[str, Any]) -> Difference | None:
    for name, value in members:
        found = difference(value, others.pop(name, _MISSING))
        if found is not None:
            found.steps.append(name)
            return found
    return Difference("is not there, and would come back", [next(iter(others))]) if others else None


def _in_private(value: BaseModel, back: BaseModel) -> Difference | None:
    others = back.__pydantic_private__ or {}
    for name, private in (value.__pydantic_private__ or {}).items():
        if difference(private, others.get(name, _MISSING)) is not None:
            return Difference("is a private attribute, which is not kept: make it a field, or reset it", [name])
    return None


def _in_dict(value: dict[Any, Any], back: dict[Any, Any]) -> Difference | None:
    if len(value) != len(back) or list(map(type, value)) != list(map(type, back)):
        return Difference("the keys of a dict would not come back equal")
    for key, inner in value.items():
        found = difference(inner, back.get(key, _MISSING))
        if found is not None:
            found.steps.append(key if isinstance(key, str | int) else None)
            return found
    return None


def _in_row(value: list[Any] | tuple[Any, ...], back: list[Any] | tuple[Any, ...]) -> Difference | None:
    if len(value) != len(back):
        return Difference(f"a {type(value).__qualname__} would come back with another length")
    for index, (inner, other) in enumerate(zip(value, back, strict=True)):
        found = difference(inner, other)
        if found is not None:
            found.steps.append(index)
            return found
    return None


def _in_set(value: set[Any] | frozenset[Any], back: set[Any] | frozenset[Any]) -> Difference | None:
    others = {inner: inner for inner in back}
    if len(value) != len(others):
        return Difference(f"a {type(value).__qualname__} would not come back equal")
    for inner in value:
        found = difference(inner, others.get(inner, _MISSING))
        if found is not None:
            found.steps.append(None)
            return found
    return None


def _fields(model: BaseModel) -> Iterator[tuple[str, Any]]:
    return ((name, model.__dict__[name]) for name in type(model).model_fields if name in model.__dict__)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    return ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value) if hasattr(value, each.name))


# -- the zones that pydantic makes ------------------------------------------------------------------------------------


def settled(value: Any) -> Any:
    """Return ``value`` with ``datetime.timezone`` for the zones that pydantic reads, which no codec takes.

    Models, lists and dicts are changed in place: they were just read, so nobody else has them.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (datetime, time)):
        zone = value.tzinfo
        if zone is None or type(zone) is not TzInfo:
            return value
        return value.replace(tzinfo=timezone(zone.utcoffset(None) or timedelta()))
    if isinstance(value, BaseModel):
        _settle(value.__dict__, value.__dict__.items())
    elif isinstance(value, dict):
        _settle(value, value.items())
        keys = [settled(key) for key in value]
        if any(key is not before for key, before in zip(keys, value, strict=True)):
            members = list(zip(keys, value.values(), strict=True))
            value.clear()
            value.update(members)
    elif isinstance(value, list):
        _settle(value, enumerate(value))
    elif type(value) in (tuple, set, frozenset):
        return type(value)(map(settled, value))
    elif isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(map(settled, value))
    elif dataclasses.is_dataclass(value):
        for name, inner in list(_attributes(value)):
            object.__setattr__(value, name, settled(inner))
    return value


def _settle(container: Any, parts: Iterable[tuple[Any, Any]]) -> None:
    changed = [(place, after) for place, inner in parts if (after := settled(inner)) is not inner]
    for place, after in changed:
        container[place] = after
