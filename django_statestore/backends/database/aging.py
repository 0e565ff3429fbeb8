"""How a test lets time pass on a database: every instant of a namespace moves into the past, fences stay."""

from __future__ import annotations

from collections.abc import Sequence

from .primitives import DatabasePrimitives

_INSTANTS = {
    "statestore_kv": ("expires_at",),
    "statestore_lock": ("expires_at",),
    "statestore_handoff": ("expires_at",),
    "statestore_list": ("expires_at",),
    "statestore_queue": ("counted_at", "peak"),
    "statestore_dedup": ("expires_at", "window_ends_at"),
    "statestore_spool_blob": ("lease_until", "dropped_at", "created_at"),
    "statestore_task": (
        "wake_at", "resume_at", "notified_until", "deadline", "mismatch_since", "created_at", "entered_at",
        "finished_at",
    ),
}  # fmt: skip

_QUEUE_ITEMS = """
update statestore_queue_item set expires_at = {earlier[expires_at]}, hidden_until = {earlier[hidden_until]},
    peak = {earlier[peak]}, created_at = {earlier[created_at]}
where queue_id in (select id from statestore_queue where namespace = %(namespace)s)
"""

_OF_TASKS = {
    "statestore_snapshot": ("saved_at",),
    "statestore_journal": ("created_at",),
    "statestore_mailbox": ("sent_at", "used_at"),
}

_TASKS = "task_id in (select id from statestore_task where namespace = %(namespace)s)"


class AgingStatements(DatabasePrimitives):
    """Make everything of one namespace older."""

    def age(self, namespace: str, milliseconds: int) -> None:
        parameters = {"namespace": namespace, "age": milliseconds}
        with self.database.transaction():
            for table, columns in _INSTANTS.items():
                self.rows(f"{_moved(table, columns)} where namespace = %(namespace)s", parameters)
            self.rows(_QUEUE_ITEMS, parameters)
            for table, columns in _OF_TASKS.items():
                self.rows(f"{_moved(table, columns)} where {_TASKS}", parameters)


def _moved(table: str, columns: Sequence[str]) -> str:
    return f"update {table} set {', '.join(f'{column} = {{earlier[{column}]}}' for column in columns)}"
