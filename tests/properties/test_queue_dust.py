"""queue once more, where few of the dead are buried at once, and few of the lapsed freed: most are still there."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis.stateful import invariant

from django_statestore.backends.database import queue_find, queue_sql

from .grounds import DatabaseGround
from .machine import check
from .test_queue import QueueMachine

ROWS = """
select namespace, key, stored, q.seq, i.seq, i.value, i.token, i.deliveries, i.free, i.hidden_until is null,
    i.expires_at is null or i.expires_at > q.counted_at
from statestore_queue q left join statestore_queue_item i on i.queue_id = q.id
"""


@contextmanager
def made_small(few: int, block: int) -> Iterator[None]:
    """Make the statements anew, with other limits, for a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_find, "FEW", few)
        patch.setattr(queue_find, "BLOCK", block)
        importlib.reload(queue_sql)
        yield
    importlib.reload(queue_sql)


class DustyQueueMachine(QueueMachine):
    """Let the head count fewer than there are rows: those that were alive when it was last counted."""

    @invariant()
    def the_head_counts_the_rows_and_they_are_the_items(self) -> None:
        every = self.rows(ROWS)
        for place in self.places:
            heads: dict[tuple[str, int, int], dict[int, tuple[Any, ...]]] = {}
            for key, stored, dealt, seq, *rest in every[place.namespace]:
                rows = heads.setdefault((key, stored, dealt), {})
                if seq is not None:
                    rows[seq] = tuple(rest)
            for (key, stored, dealt), rows in heads.items():
                assert stored == sum(bool(row[5]) for row in rows.values()), key
                assert max(rows, default=0) <= dealt, key
                assert all(bool(row[3]) is bool(row[4]) for row in rows.values()), key
                expected = [item.row() for item in place.model.items(key)]
                values = [value for value, _, _ in expected]
                found = [rows[seq] for seq in sorted(rows) if rows[seq][0] in values]
                assert [(v, None if t is None else bytes(t), d) for v, t, d, *_ in found] == expected, key


@pytest.mark.parametrize("few", [1, 3])
@pytest.mark.django_db(databases="__all__")
def test_queue_agrees_with_lists_of_items_among_the_dead(alias: str, few: int) -> None:
    with made_small(few, block=2):
        check(DustyQueueMachine, DatabaseGround(alias))
