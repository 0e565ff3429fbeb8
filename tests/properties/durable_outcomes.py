"""What a step of a test's task does, and how it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "next",
    "repeat",
    "sleep",
    "wait",
    "repeat wait",
    "finish",
    "fail",
    "raise",
    "refused",
    "cancelled",
    "deadline",
]

SIGNALS = ["yes", "yes", "no"]
DELAYED = ("sleep", "wait", "repeat", "repeat wait")

WEIGHTS: dict[Kind, int] = {
    "next": 30, "wait": 6, "repeat": 4, "repeat wait": 4, "sleep": 4, "raise": 6,
    "refused": 2, "finish": 1, "fail": 1, "cancelled": 1, "deadline": 1,
}  # fmt: skip
KINDS = [kind for kind, weight in WEIGHTS.items() for _ in range(weight)]


@dataclass(repr=False)
class Outcome:
    """Be what a step is told to do, and how the model is told what it did."""

    kind: Kind
    delay: float | None = None
    """Of a sleep, of a repeat, or until a wait times out."""
    name: str = ""
    spends: int = 0
    appends: int = 0
    calls: int = 0
    dies: str = ""
    """The point at which the worker dies."""
    done: bool = True
    """What a reconcile function finds."""
    state: int = 0

    def __repr__(self) -> str:
        said = (
            f"{each.name}={value!r}" for each in fields(self) if (value := getattr(self, each.name)) != each.default
        )
        return f"Outcome({', '.join(said)})"


def outcome_by(chance: Random) -> Outcome:
    """Return what a step does: mostly it goes well."""
    kind = chance.choice(KINDS)
    delay = chance.choice([None, 1.5, 2.5, 10.5]) if kind in DELAYED else None
    return Outcome(
        kind,
        1.5 if kind == "sleep" and delay is None else delay,
        chance.choice(SIGNALS) if kind.endswith("wait") else "",
        spends=chance.choice([0, 1, 2]),
        appends=chance.choice([0, 1]),
        calls=chance.choice([0, 0, 1, 2]),
        dies=chance.choice(["", "", "", "", "", "", "", "called", "returned", "saved"]),
        done=chance.choice([True, False, False]),
    )
