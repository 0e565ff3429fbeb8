"""list against Python's lists."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from django_statestore.models import ListHead

from .grounds import Ground
from .machine import FacetMachine, Model, Place, check, has_rows, keys, places, seconds, ttls

ROWS = """
select namespace, key, floor, h.seq, i.seq from statestore_list h left join statestore_list_item i on i.list_id = h.id
"""

lengths = st.integers(0, 5)
limits = st.none() | st.integers(1, 4)


class ListModel(Model):
    def __init__(self) -> None:
        super().__init__()
        self.lists: dict[str, tuple[list[int], float | None]] = {}

    def get(self, key: str) -> tuple[list[int], float | None]:
        values, end = self.lists.get(key, ([], None))
        return (values, end) if self.lies_ahead(end) else ([], None)

    def append(self, key: str, value: int, max_len: int | None, ttl: float | None) -> int:
        values, end = self.get(key)
        values = [*values, value][-(max_len or 0) :]
        self.lists[key] = (values, end if ttl is None else self.after(ttl))
        return len(values)

    def trim(self, key: str, max_len: int) -> None:
        values, end = self.get(key)
        self.lists[key] = (values[-max_len:], end) if max_len and values else ([], None)

    def living(self) -> dict[str, tuple[int, float | None]]:
        lists = {key: self.get(key) for key in self.lists}
        return {key: (sum(len(str(value)) for value in values), end) for key, (values, end) in lists.items() if values}

    def clear(self) -> None:
        self.lists.clear()


class ListMachine(FacetMachine[ListModel]):
    facet = "list"
    orphans = "select count(*) from statestore_list_item where list_id not in (select id from statestore_list)"
    model = ListModel

    @rule(at=places, key=keys, max_len=limits, ttl=ttls)
    def append(self, at: int, key: str, max_len: int | None, ttl: float | None) -> None:
        facet, model = self.at(at)
        value = self.next_value()
        assert self.call(facet.append, key, value, max_len, seconds(ttl)) == model.append(key, value, max_len, ttl)

    @rule(at=places, key=keys)
    def append_and_keep(self, at: int, key: str) -> None:
        facet, model = self.at(at)
        value = self.next_value()
        assert self.call(facet.append, key, value) == model.append(key, value, None, None)

    @rule(at=places, key=keys, start=lengths, stop=st.none() | lengths, n=lengths)
    def read(self, at: int, key: str, start: int, stop: int | None, n: int) -> None:
        facet, model = self.at(at)
        values, _ = model.get(key)
        assert self.call(facet.range, key, start, stop) == values[start : None if stop is None else stop + 1]
        assert self.call(facet.last, key, n) == (values[-n:] if n else [])
        assert self.call(facet.length, key) == len(values)

    @rule(at=places, key=keys, max_len=lengths)
    def trim(self, at: int, key: str, max_len: int) -> None:
        facet, model = self.at(at)
        self.call(facet.trim, key, max_len)
        model.trim(key, max_len)

    @rule(at=places, key=keys)
    def delete(self, at: int, key: str) -> None:
        facet, model = self.at(at)
        assert self.call(facet.delete, key) is bool(model.get(key)[0])
        model.trim(key, 0)

    @invariant()
    def every_list_has_its_values(self) -> None:
        for place in self.places:
            for key in place.model.lists:
                assert self.facet_of(place).range(key) == place.model.get(key)[0], key

    @invariant()
    @has_rows
    def the_head_tells_which_rows_there_are(self) -> None:
        for rows in self.rows(ROWS).values():
            items: dict[tuple[str, int, int], list[int | None]] = {}
            for key, floor, dealt, seq in rows:
                items.setdefault((key, floor, dealt), []).append(seq)
            for (key, floor, dealt), seqs in items.items():
                assert sorted(seq for seq in seqs if seq) == [*range(floor + 1, dealt + 1)], key

    def check_purged(self, place: Place[ListModel]) -> None:
        heads = ListHead.objects.using(self.ground.name).filter(namespace=place.namespace)
        assert {head.key for head in heads} == set(place.model.living())


@pytest.mark.django_db(databases="__all__")
def test_list_agrees_with_lists(ground: Ground) -> None:
    check(ListMachine, ground)
