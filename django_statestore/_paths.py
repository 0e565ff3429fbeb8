"""Write where in a value something stands, as errors show it."""

from __future__ import annotations

from collections.abc import Iterable
from json.encoder import encode_basestring_ascii

Step = str | int | None
"""A key, an index, or ``None`` for some element of a set."""

_LONGEST_KEY = 80


def path_of(steps: Iterable[Step]) -> str:
    """Return a path such as ``$.items[3].price``; long keys are cut."""
    return "$" + "".join(map(_written, steps))


def _written(step: Step) -> str:
    if step is None:
        return "{}"
    if isinstance(step, int):
        return f"[{step}]"
    if len(step) > _LONGEST_KEY:
        step = step[: _LONGEST_KEY - 3] + "..."
    return f".{step}" if step.isascii() and step.isidentifier() else f"[{encode_basestring_ascii(step)}]"
