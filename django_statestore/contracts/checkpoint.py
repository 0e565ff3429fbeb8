"""The checkpoint document: field by field that of the seed contract, version 2, strict in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ..exceptions import CheckpointInvalid, InvalidKey, VersionMismatch
from ..keys import check_text

VERSION = 2
_LATEST_MS = 253_402_300_799_999  # the end of the year 9999: beyond it neither Python nor a database has a date

CheckpointStatus: TypeAlias = Literal["ready", "running", "completed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """Hold the durable, conservative reservations of model calls."""

    max_calls: int
    reserved_calls: int
    max_calls_per_attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Hold where a durable task stands. ``deadline_at_ms`` is in epoch milliseconds; ``state`` is the app's own."""

    definition_id: str
    revision: str
    next_step_index: int
    attempt_count: int
    max_attempts: int
    deadline_at_ms: int
    status: CheckpointStatus
    state: Any
    model_budget: BudgetUse | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        _check_version(self.version)
        for name in ("definition_id", "revision"):
            try:
                check_text(getattr(self, name), _WIRE[name])
            except InvalidKey as error:
                raise CheckpointInvalid(str(error)) from None
        for name in ("next_step_index", "attempt_count", "max_attempts", "deadline_at_ms"):
            _whole(_WIRE[name], getattr(self, name), _LATEST_MS if name == "deadline_at_ms" else 2**31 - 1)
        if self.attempt_count > self.max_attempts:
            raise CheckpointInvalid("attemptCount is more than maxAttempts")
        if self.status not in get_args(CheckpointStatus):
            raise CheckpointInvalid(f"status must be one of {', '.join(get_args(CheckpointStatus))}")
        if self.model_budget is not None:
            _check_budget(self.model_budget)

    def to_json(self) -> dict[str, Any]:
        """Return the document as it goes over the wire: camelCase, without ``modelBudget`` where there is none."""
        document = {wire: getattr(self, name) for name, wire in _WIRE.items()}
        if self.model_budget is None:
            del document["modelBudget"]
        else:
            document["modelBudget"] = {wire: getattr(self.model_budget, name) for name, wire in _BUDGET.items()}
        return document

    @classmethod
    def from_json(cls, document: Any) -> Checkpoint:
        """Return the checkpoint of a wire document; ``CheckpointInvalid`` names the member that is wrong."""
        if isinstance(document, Mapping) and "version" in document:
            _check_version(document["version"])  # first: another version may have other members
        members = _members(document, _WIRE, "the checkpoint", optional="modelBudget")
        if "model_budget" in members:
            members["model_budget"] = BudgetUse(**_members(members["model_budget"], _BUDGET, "modelBudget"))
        return cls(**members)


_WIRE = {
    "version": "version",
    "definition_id": "definitionId",
    "revision": "revision",
    "next_step_index": "nextStepIndex",
    "attempt_count": "attemptCount",
    "max_attempts": "maxAttempts",
    "deadline_at_ms": "deadlineAtMs",
    "status": "status",
    "state": "state",
    "model_budget": "modelBudget",
}

_BUDGET = {
    "max_calls": "maxCalls",
    "reserved_calls": "reservedCalls",
    "max_calls_per_attempt": "maxCallsPerAttempt",
}


def _members(document: Any, names: dict[str, str], what: str, optional: str = "") -> dict[str, Any]:
    if not isinstance(document, Mapping):
        raise CheckpointInvalid(f"{what} must be an object")
    known = {wire: name for name, wire in names.items()}
    for wire in document:
        if wire not in known:
            raise CheckpointInvalid(f"{what} has an unknown member {wire!r}")
    for wire in known:
        if wire not in document and wire != optional:
            raise CheckpointInvalid(f"{what} lacks the member {wire!r}")
    return {known[wire]: value for wire, value in document.items()}


def _whole(name: str, value: Any, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise CheckpointInvalid(f"{name} must be a whole number from 0 to {most}")


def _check_version(version: object) -> None:
    if type(version) is not int or version != VERSION:
        raise VersionMismatch(f"the checkpoint has another version than {VERSION}")


def _check_budget(budget: object) -> None:
    if not isinstance(budget, BudgetUse):
        raise CheckpointInvalid("model_budget must be a BudgetUse, or None")
    for name, wire in _BUDGET.items():
        _whole(f"modelBudget.{wire}", getattr(budget, name), 2**31 - 1)
    if budget.reserved_calls > budget.max_calls:
        raise CheckpointInvalid("modelBudget.reservedCalls is more than modelBudget.maxCalls")
