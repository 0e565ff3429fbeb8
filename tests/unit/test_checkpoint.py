"""The checkpoint document is the seed contract's, strict in both directions."""

from typing import Any

import pytest

from django_statestore.contracts.checkpoint import BudgetUse, Checkpoint
from django_statestore.exceptions import CheckpointInvalid, VersionMismatch

DOCUMENT: dict[str, Any] = {
    "version": 2,
    "definitionId": "count",
    "revision": "1",
    "nextStepIndex": 0,
    "attemptCount": 1,
    "maxAttempts": 3,
    "deadlineAtMs": 1_900_000_000_123,
    "status": "ready",
    "state": {"count": 0},
    "modelBudget": {"maxCalls": 5, "reservedCalls": 2, "maxCallsPerAttempt": 2},
}


def test_the_document_comes_back_as_it_was() -> None:
    checkpoint = Checkpoint.from_json(DOCUMENT)
    assert checkpoint.model_budget == BudgetUse(max_calls=5, reserved_calls=2, max_calls_per_attempt=2)
    assert checkpoint.to_json() == DOCUMENT


def test_an_absent_budget_stays_absent() -> None:
    document = {name: value for name, value in DOCUMENT.items() if name != "modelBudget"}
    assert Checkpoint.from_json(document).to_json() == document


@pytest.mark.parametrize(
    ("changes", "member"),
    [
        ({"definitionId": ""}, "definitionId is empty"),
        ({"definitionId": "a\0b"}, "definitionId holds a NUL"),
        ({"definitionId": "\ud800"}, "definitionId holds a lone surrogate"),
        ({"revision": "r" * 1025}, "revision is 1025 bytes long"),
        ({"revision": 1}, "revision"),
        ({"nextStepIndex": -1}, "nextStepIndex"),
        ({"nextStepIndex": 1.0}, "nextStepIndex"),
        ({"attemptCount": True}, "attemptCount"),
        ({"attemptCount": 4}, "attemptCount is more than maxAttempts"),
        ({"maxAttempts": 2**31}, "maxAttempts"),
        ({"deadlineAtMs": 10**15}, "deadlineAtMs"),
        ({"status": "failed"}, "status"),
        ({"modelBudget": None}, "modelBudget"),
        ({"modelBudget": {"maxCalls": 1}}, "reservedCalls"),
        ({"modelBudget": {"maxCalls": 1, "reservedCalls": 2, "maxCallsPerAttempt": 1}}, "reservedCalls"),
        ({"stateful": 1}, "stateful"),
    ],
    ids=str,
)
def test_what_breaks_the_contract_is_refused_by_name(changes: dict[str, Any], member: str) -> None:
    with pytest.raises(CheckpointInvalid, match=member):
        Checkpoint.from_json(DOCUMENT | changes)


@pytest.mark.parametrize("version", [1, 3, "2", None, True, 2.0, [2]])
def test_other_versions_are_refused(version: object) -> None:
    with pytest.raises(VersionMismatch):
        Checkpoint.from_json(DOCUMENT | {"version": version})


@pytest.mark.parametrize("missing", [name for name in DOCUMENT if name != "modelBudget"])
def test_missing_members_are_refused(missing: str) -> None:
    with pytest.raises(CheckpointInvalid, match=missing):
        Checkpoint.from_json({name: value for name, value in DOCUMENT.items() if name != missing})


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(CheckpointInvalid, match="object"):
        Checkpoint.from_json([DOCUMENT])


def test_a_checkpoint_is_as_strict_as_its_document() -> None:
    given: dict[str, Any] = {
        "definition_id": "count", "revision": "1", "next_step_index": 0, "attempt_count": 0, "max_attempts": 1,
        "deadline_at_ms": 0, "status": "ready", "state": None,
    }  # fmt: skip
    assert Checkpoint(**given).model_budget is None
    with pytest.raises(CheckpointInvalid, match="model_budget must be a BudgetUse"):
        Checkpoint(**given, model_budget={"max_calls": 1, "reserved_calls": 0, "max_calls_per_attempt": 1})  # type: ignore[arg-type]
    with pytest.raises(VersionMismatch):
        Checkpoint(**given, version=2.0)  # type: ignore[arg-type]
