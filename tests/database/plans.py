"""What a database says about the work that our statements are to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

from django_statestore import Store


@dataclass
class Work:
    """What the statements inside a block were, and what they cost."""

    plans: list[str] = field(default_factory=list)
    """The lines of the plans: on PostgreSQL ``node on relation``, on SQLite as EXPLAIN QUERY PLAN writes them."""
    touched: int = 0
    """The rows that were looked at on PostgreSQL, the instructions that were run on SQLite."""
    blocks: int = 0
    """The blocks that were looked at on PostgreSQL."""

    def scans(self, *tables: str) -> list[str]:
        """Return the lines that read a whole table."""
        whole = [line for line in self.plans if line.startswith(("Seq Scan", "SCAN"))]
        return [line for line in whole if set(line.split()) & set(tables)]


def watched(store: Store, plan_cache_mode: str) -> Any:
    """Note the work of the store's statements, sent in the very way in which they always are."""
    if connections[store.alias].vendor == "sqlite":
        return _watched_sqlite(store)
    return _watched_postgres(store, plan_cache_mode)


@contextmanager
def _watched_sqlite(store: Store) -> Iterator[Work]:
    raw, work, sent = connections[store.alias].connection, Work(), list[str]()

    def count() -> int:
        work.touched += 1
        return 0

    raw.set_progress_handler(count, 1)
    raw.set_trace_callback(sent.append)  # with the parameters filled in
    try:
        yield work
    finally:
        raw.set_trace_callback(None)
        raw.set_progress_handler(None, 0)
    for text in sent:
        work.plans += [row[3] for row in raw.execute(f"explain query plan {text}")]


@contextmanager
def _watched_postgres(store: Store, plan_cache_mode: str) -> Iterator[Work]:
    """Let the server explain what it runs: a prepared statement's plan is not that of its text."""
    raw, work = connections[store.alias].connection, Work()

    def note(diagnostic: Any) -> None:
        message = str(diagnostic.message_primary)
        if "plan:\n" in message:
            _read(json.loads(message.partition("plan:\n")[2])["Plan"], work)

    with connections[store.alias].cursor() as cursor:
        cursor.execute("load 'auto_explain'")
        for name, value in {
            "plan_cache_mode": plan_cache_mode,
            "auto_explain.log_format": "json",
            "auto_explain.log_level": "notice",
            "auto_explain.log_analyze": "on",
            "auto_explain.log_buffers": "on",
            "auto_explain.log_min_duration": "0",
        }.items():
            cursor.execute(f"set local {name} = {value}")
        raw.add_notice_handler(note)
        try:
            yield work
            cursor.execute("select 1")  # a SELECT ends, and is explained, when the next statement takes its place
        finally:
            raw.remove_notice_handler(note)
            cursor.execute("set local auto_explain.log_min_duration = -1")


def _read(node: dict[str, Any], work: Work, top: bool = True) -> None:
    if top:
        work.blocks += node["Shared Hit Blocks"] + node["Shared Read Blocks"]
    if "Relation Name" in node and "Scan" in node["Node Type"]:
        work.plans.append(f"{node['Node Type']} on {node['Relation Name']} by {node.get('Index Name')}")
        seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        work.touched += round(seen * node["Actual Loops"])
    for child in node.get("Plans", ()):
        _read(child, work, top=False)
