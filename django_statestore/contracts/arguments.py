"""How whole numbers among the arguments are checked."""

from __future__ import annotations

from ..exceptions import InvalidArgument, InvalidArgumentType

MOST = 2**53 - 1  # what every backend, and JSON, can count to


def whole(name: str, value: object, *, least: int = 0, most: int = MOST) -> int:
    """Return ``value`` if it is a whole number within its bounds, or refuse it by its name."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgumentType(f"{name} is a {type(value).__name__}, not a whole number")
    if not least <= value <= most:
        raise InvalidArgument(f"{name} must be from {least} to {most}")
    return int(value)
