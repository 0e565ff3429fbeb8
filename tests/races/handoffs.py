"""What the processes of the handoff races do."""

from __future__ import annotations

from django_statestore import Store

from .course import RACERS, Meet


def take_each(number: int, store: Store, meet: Meet, count: int) -> tuple[list[int], list[int]]:
    """Try to take the state behind every id; return the ids that were taken and those that were deleted.

    Of the second half of the ids every other process deletes what it finds. In the end nothing is left.
    """
    taken, deleted = list[int](), list[int]()
    for mine in range(number, count, RACERS):
        store.handoff.set(f"id {mine}", {"number": mine}, ttl=60)
    for id in range(count):
        if id % 2 == 0:
            meet()  # nobody runs ahead of the others
        expected = {"number": id}
        assert store.handoff.get(f"id {id}") in (None, expected)
        if id >= count // 2 and number % 2:
            if store.handoff.delete(f"id {id}"):
                deleted.append(id)
        elif (state := store.handoff.get_and_delete(f"id {id}")) is not None:
            assert state == expected
            taken.append(id)
        assert store.handoff.get(f"id {id}") is None
    meet()
    assert store.handoff.size() == 0
    return taken, deleted


def set_and_take(number: int, store: Store, meet: Meet, turns: int) -> tuple[int, int]:
    """Pass one token round: take it, and set it again, raised by one; return how often, and where it ended."""
    passed = 0
    if number == 0:
        store.handoff.set("token", {"value": 0}, ttl=60)
    meet()
    for _ in range(turns):
        token = store.handoff.get_and_delete("token")
        if token is not None:
            passed += 1
            store.handoff.set("token", {"value": token["value"] + 1}, ttl=60)
    meet()
    token = store.handoff.get("token")
    assert token is not None
    return passed, token["value"]
