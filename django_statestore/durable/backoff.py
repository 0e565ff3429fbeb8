"""How long a step that raised waits before it is entered again."""

from __future__ import annotations

from dataclasses import dataclass

from ..exceptions import InvalidDefinition
from ..ttl import Duration, milliseconds


@dataclass(frozen=True, slots=True)
class Backoff:
    """Wait ``first`` seconds after the first failure, ``factor`` times longer after each, ``longest`` at the most."""

    first: Duration = 1
    longest: Duration = 300
    factor: float = 2.0

    def __post_init__(self) -> None:
        milliseconds(self.first, "backoff.first")
        milliseconds(self.longest, "backoff.longest")
        if not self.factor >= 1:
            raise InvalidDefinition("backoff.factor", "must be at least 1")

    def after(self, failures: int) -> int:
        """Return the milliseconds to wait after the ``failures``-th failure in a row."""
        longest = milliseconds(self.longest)
        # Beyond 60 doublings the power would overflow a float long after the ceiling decided.
        return int(min(longest, milliseconds(self.first) * self.factor ** min(max(failures, 1) - 1, 60)))
