"""A server is ended, killed and frozen under load: what was acknowledged is there, and nothing is done twice."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.outages.accounts import keep
from tests.outages.load import Ledger, work
from tests.outages.targets import Kind, Target
from tests.processes import Processes
from tests.servers.served import Order

CREWS = {"threads": (4, False), "tasks": (4, True)}
"""Processes: how many workers each has, and whether they are asynchronous."""
OUTAGES: tuple[Order, ...] = ("end", "kill")
IMPATIENT: dict[Kind, dict[str, Any]] = {
    "postgres": {"options": "-c statement_timeout=400"},
    "valkey": {"socket_timeout": 0.4},
}
UNDER_LOAD = 0.7
FROZEN = 0.8


def test_stopped_under_load(server: Any, target: Target, children: Processes, namespace: str, tmp_path: Path) -> None:
    keeper = children.start(keep, target, namespace, tmp_path / "ledgers")
    impatient = replace(target, options=IMPATIENT[target.kind])
    keeper.expect("filled")
    crews = [children.start(work, impatient, namespace, name, *form) for name, form in CREWS.items()]
    for crew in crews:
        crew.expect("at work")
    for outage in OUTAGES:
        time.sleep(UNDER_LOAD)
        server.order(outage)
        for crew in crews:
            crew.expect("cut off")
        server.order("start")
        for crew in crews:
            crew.expect("at work")
    time.sleep(UNDER_LOAD)
    server.order("freeze")
    time.sleep(FROZEN)
    server.order("thaw")
    time.sleep(UNDER_LOAD)
    for crew in crews:
        crew.go()
    ledgers: list[Ledger] = [ledger for crew in crews for ledger in crew.result()]
    (tmp_path / "ledgers").write_bytes(pickle.dumps(ledgers))
    keeper.go()
    wrong = keeper.result()
    assert not wrong, "\n".join(wrong)
    for ledger in ledgers:
        assert ledger.counts["done"] > 50
        assert ledger.counts["refused"]
        if target.kind == "postgres":  # a worker has one connection, and what is known to be closed is not used
            assert ledger.counts["unknown"] <= len(OUTAGES)
    print({ledger.name: ledger.counts for ledger in ledgers})  # noqa: T201
