"""The two structures that everything is found by, against plain ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from django_statestore.backends.memory.agenda import Agenda
from django_statestore.backends.memory.names import Names

numbers = st.integers(0, 12)
changes = st.lists(st.tuples(st.sampled_from(["put", "remove", "pop", "first"]), numbers, numbers), max_size=400)


@given(changes)
def test_an_agenda_gives_the_key_with_the_least_number(steps: list[tuple[str, int, int]]) -> None:
    agenda: Agenda[int] = Agenda()
    plain: dict[int, int] = {}
    for step, key, number in steps:
        if step == "put":
            agenda.put(key, number)
            plain[key] = number
        elif step == "remove":
            agenda.remove(key) if number % 2 else agenda.put(key, None)
            plain.pop(key, None)
        else:
            expected = min(((at, key) for key, at in plain.items() if at <= number), default=None)
            assert agenda.first(number) == (expected[1] if expected else None)
            if step == "pop":
                assert agenda.pop(number) == (expected[1] if expected else None)
                if expected:
                    del plain[expected[1]]
        assert (len(agenda), key in agenda) == (len(plain), key in plain)
        assert agenda.least is None if not plain else (agenda.least or 0) <= min(plain.values())
        assert len(agenda._heap) <= 2 * len(plain) + 65


keys = st.text("abc", min_size=1, max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "list"]), keys, keys), max_size=200))
def test_names_are_listed_in_order_whatever_came_and_went(steps: list[tuple[str, str, str]]) -> None:
    names, plain = Names(), dict[str, bytes]()
    for step, key, other in steps:
        if step == "add":
            names.add(key, other.encode())
            plain[key] = other.encode()
        elif step == "remove" and key in plain:
            names.remove(key)
            del plain[key]
        elif step == "list":
            for prefix, after in ((key[:1], other), ("", ""), (key, ""), ("", key)):
                expected = [(k, plain[k]) for k in sorted(plain) if k.startswith(prefix) and k > after]
                assert list(names.listed(prefix, after)) == expected


def test_an_order_that_nobody_asks_for_any_more_is_dropped() -> None:
    names = Names()
    names.add("k", b"d")
    assert [key for key, _ in names.listed("", "")] == ["k"]
    for number in range(3000):
        names.add(f"k{number}", b"d")
    assert names._order is None
    assert len(list(names.listed("", ""))) == 3001
    for number in range(3000):
        names.remove(f"k{number}")
    assert names._order is None
    assert [key for key, _ in names.listed("", "")] == ["k"]
