"""handoff: carry-over state behind a one-shot id."""

from __future__ import annotations

from typing import Any

import pytest

from ...exceptions import InvalidKey, InvalidTTL, ValueNotSerializable
from ...store import Store
from .base import Conformance, later, purge
from .calling import Call
from .cases import BAD_KEYS, BAD_TTLS, ODD_KEYS, UNLIKE_KEYS


class HandoffConformance(Conformance):
    """Hold a backend to the rules of ``store.handoff``."""

    def test_the_state_is_taken_once(self, store: Store, call: Call) -> None:
        call(store.handoff.set, "h", {"cart": [1, 2]}, 60)
        assert call(store.handoff.get_and_delete, "h") == {"cart": [1, 2]}
        assert call(store.handoff.get_and_delete, "h") is None
        assert call(store.handoff.get, "h") is None
        assert call(store.handoff.delete, "h") is False
        assert call(store.handoff.size) == 0

    def test_get_reads_without_taking(self, store: Store, call: Call) -> None:
        call(store.handoff.set, "h", {}, 60)
        assert call(store.handoff.get, "h") == call(store.handoff.get, "h") == {}
        assert call(store.handoff.get_and_delete, "h") == {}

    def test_what_was_never_set_is_none(self, store: Store, call: Call) -> None:
        assert call(store.handoff.get, "h") is None
        assert call(store.handoff.get_and_delete, "h") is None
        assert call(store.handoff.delete, "h") is False
        assert call(store.handoff.size) == 0
        call(store.handoff.clear)

    def test_set_replaces_state_and_expiry(self, store: Store, call: Call) -> None:
        call(store.handoff.set, "h", {"n": 1}, 5)
        call(store.handoff.set, "h", {"n": 2}, 60)
        call(store.handoff.set, "shorter", {"n": 1}, 60)
        call(store.handoff.set, "shorter", {"n": 2}, 5)
        later(store, 6)
        assert call(store.handoff.size) == 1
        assert call(store.handoff.get_and_delete, "shorter") is None
        assert call(store.handoff.get_and_delete, "h") == {"n": 2}

    def test_an_id_may_be_set_again_after_it_was_taken(self, store: Store, call: Call) -> None:
        call(store.handoff.set, "h", {"n": 1}, 60)
        call(store.handoff.get_and_delete, "h")
        call(store.handoff.set, "h", {"n": 2}, 60)
        assert call(store.handoff.get_and_delete, "h") == {"n": 2}

    def test_issue_makes_an_unguessable_id(self, store: Store, call: Call) -> None:
        ids = {call(store.handoff.issue, {"n": number}, 60) for number in range(5)}
        assert len(ids) == 5
        assert min(map(len, ids)) >= 32
        assert call(store.handoff.size) == 5
        states = [call(store.handoff.get_and_delete, each) for each in ids]
        assert sorted(state["n"] for state in states if state) == list(range(5))

    @pytest.mark.parametrize("purged", [False, True], ids=["unpurged", "purged"])
    def test_expired_states_are_gone_and_do_not_count(self, store: Store, call: Call, purged: bool) -> None:
        call(store.handoff.set, "h", {}, 60)
        later(store, 50)
        assert call(store.handoff.get, "h") == {}
        later(store, 11)
        if purged:
            purge(store)
        assert call(store.handoff.get, "h") is None
        assert call(store.handoff.delete, "h") is False
        assert call(store.handoff.size) == 0
        assert call(store.handoff.get_and_delete, "h") is None
        call(store.handoff.set, "h", {"n": 1}, 60)
        assert call(store.handoff.get_and_delete, "h") == {"n": 1}

    def test_delete_tells_whether_there_was_one(self, store: Store, call: Call) -> None:
        call(store.handoff.set, "h", {}, 60)
        assert call(store.handoff.delete, "h") is True
        assert call(store.handoff.delete, "h") is False
        assert call(store.handoff.get_and_delete, "h") is None

    @pytest.mark.parametrize("state", [None, [], "text", 1, {"x": object()}, {1: 2}], ids=repr)
    def test_the_state_is_a_json_object(self, store: Store, call: Call, state: object) -> None:
        with pytest.raises(ValueNotSerializable):
            call(store.handoff.set, "h", state, 60)  # type: ignore[arg-type]
        with pytest.raises(ValueNotSerializable):
            call(store.handoff.issue, state, 60)  # type: ignore[arg-type]
        assert call(store.handoff.size) == 0

    def test_missing_ids_and_lifetimes_are_refused(self, store: Store, call: Call) -> None:
        operations: dict[str, list[Any]] = {"set": [{}, 60], "get": [], "get_and_delete": [], "delete": []}
        for key in BAD_KEYS:
            for operation, arguments in operations.items():
                with pytest.raises(InvalidKey):
                    call(getattr(store.handoff, operation), key, *arguments)
        for ttl in [*BAD_TTLS, None]:
            with pytest.raises(InvalidTTL):
                call(store.handoff.set, "h", {}, ttl)
            with pytest.raises(InvalidTTL):
                call(store.handoff.issue, {}, ttl)
        assert call(store.handoff.size) == 0

    def test_ids_are_compared_exactly(self, store: Store, call: Call) -> None:
        ids = UNLIKE_KEYS + ODD_KEYS
        for number, each in enumerate(ids):
            call(store.handoff.set, each, {"n": number}, 60)
        assert [call(store.handoff.get_and_delete, each) for each in ids] == [{"n": n} for n in range(len(ids))]

    def test_ids_cannot_be_listed(self, store: Store) -> None:
        assert not hasattr(store.handoff, "scan")
        assert not hasattr(store.handoff, "ascan")

    def test_namespaces_are_apart(self, store: Store, call: Call) -> None:
        call(store.handoff.set, "h", {"n": 1}, 60)
        assert call(store.namespace("below").handoff.get_and_delete, "h") is None
        call(store.namespace("below").handoff.set, "h", {"n": 2}, 60)
        call(store.namespace("below").handoff.clear)
        assert call(store.handoff.size) == 1
        call(store.handoff.clear)
        assert call(store.handoff.size) == 0
