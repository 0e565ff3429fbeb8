"""Connections that end unseen are replaced: reads go through, and no write is done twice or told wrongly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.outages.sessions import Cause, open_over_fork, replaced
from tests.outages.targets import Kind, Target
from tests.processes import Processes

IDLE: dict[Kind, dict[str, Any]] = {"postgres": {"options": "-c idle_session_timeout=700"}, "valkey": {}}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_replaced(target: Target, children: Processes, namespace: str, asynchronous: bool) -> None:
    idle = replace(target, options=IDLE[target.kind])
    targets: dict[Cause, Target] = {"closed": target, "idle": idle, "forked": target}
    told = children.start(replaced, targets, namespace, asynchronous).result()
    for cause, (wrong, went_through) in told.items():
        assert not wrong, "\n".join([cause, *wrong])
        assert went_through, cause


@pytest.mark.parametrize("server", ["postgres"], indirect=True)
def test_a_fork_has_no_part_in_the_transaction_of_its_parent(
    target: Target, children: Processes, namespace: str
) -> None:
    told, kept = children.start(open_over_fork, target, namespace).result()
    assert told.startswith("StoreUnavailable: the transaction on the database 'outages' was begun before")
    assert kept == "the parent's"
