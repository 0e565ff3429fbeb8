"""kv: values by key, with an optional time to live."""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import Any

import pytest

from ...exceptions import InvalidKey, InvalidKeyType, InvalidTTL
from ...store import Store
from .base import Conformance, later, purge
from .calling import Call
from .cases import BAD_KEYS, BAD_TTLS, EMPTY_VALUES, ODD_KEYS, UNLIKE_KEYS, alike

MISSING = object()


class KVConformance(Conformance):
    """Hold a backend to the rules of ``store.kv``."""

    # -- presence -----------------------------------------------------------------------------------------------------

    def test_a_missing_key_gives_the_default(self, store: Store, call: Call) -> None:
        assert call(store.kv.get, "k") is None
        assert call(store.kv.get, "k", MISSING) is MISSING
        assert call(store.kv.consume, "k") is None
        assert call(store.kv.consume, "k", default=MISSING) is MISSING
        assert call(store.kv.delete, "k") is False
        assert call(store.kv.touch, "k", 60) is False

    @pytest.mark.parametrize("value", EMPTY_VALUES, ids=repr)
    def test_an_empty_value_is_a_value(self, store: Store, call: Call, value: Any) -> None:
        call(store.kv.set, "k", value)
        assert alike(call(store.kv.get, "k", MISSING), value)
        assert call(store.kv.add, "k", "other") is False
        assert call(store.kv.touch, "k", 60) is True
        assert call(store.kv.size) == 1
        assert alike(call(store.kv.consume, "k", MISSING), value)
        assert call(store.kv.get, "k", MISSING) is MISSING
        call(store.kv.set, "k", value)
        assert call(store.kv.delete, "k") is True

    # -- expiry -------------------------------------------------------------------------------------------------------

    def test_set_replaces_value_and_expiry(self, store: Store, call: Call) -> None:
        call(store.kv.set, "lasting", 1, ttl=10)
        call(store.kv.set, "lasting", 2)
        call(store.kv.set, "passing", 1)
        call(store.kv.set, "passing", 2, ttl=10)
        call(store.kv.set, "longer", 1, ttl=5)
        call(store.kv.set, "longer", 2, ttl=60)
        later(store, 11)
        assert [call(store.kv.get, key) for key in ("lasting", "passing", "longer")] == [2, None, 2]

    def test_set_revives_an_expired_key(self, store: Store, call: Call) -> None:
        call(store.kv.set, "k", 1, ttl=10)
        later(store, 11)
        call(store.kv.set, "k", 2)
        later(store, 10_000)
        assert call(store.kv.get, "k") == 2

    def test_a_value_without_ttl_does_not_expire(self, store: Store, call: Call) -> None:
        call(store.kv.set, "k", 1)
        call(store.kv.add, "added", 1)
        later(store, timedelta(days=3650))
        purge(store)
        assert call(store.kv.get, "k") == call(store.kv.get, "added") == 1

    def test_a_value_lives_for_its_ttl_and_no_longer(self, store: Store, call: Call) -> None:
        for ttl in (60, 60.0, timedelta(minutes=1)):
            call(store.kv.set, "k", 1, ttl=ttl)
            later(store, 50)
            assert call(store.kv.get, "k") == 1
            later(store, 9.999)
            later(store, 0.001)
            assert call(store.kv.get, "k") is None

    def test_the_longest_ttl_is_no_overflow(self, store: Store, call: Call) -> None:
        call(store.kv.set, "k", 1, ttl=timedelta(days=3650))
        assert call(store.kv.get, "k") == 1
        later(store, timedelta(days=3640))
        assert call(store.kv.get, "k") == 1
        later(store, timedelta(days=11))
        assert call(store.kv.get, "k") is None

    @pytest.mark.parametrize("ttl", [0.0001, 0.4, timedelta(microseconds=1), timedelta(seconds=0.9)], ids=repr)
    def test_a_fraction_of_a_second_is_no_eternity(self, store: Store, call: Call, ttl: Any) -> None:
        call(store.kv.set, "set", 1, ttl=ttl)
        call(store.kv.add, "added", 1, ttl=ttl)
        call(store.kv.set, "touched", 1)
        call(store.kv.touch, "touched", ttl)
        later(store, 1)
        assert [call(store.kv.get, key) for key in ("set", "added", "touched")] == [None] * 3

    @pytest.mark.parametrize("purged", [False, True], ids=["unpurged", "purged"])
    def test_an_expired_value_is_absent_whether_or_not_it_was_purged(
        self, store: Store, call: Call, purged: bool
    ) -> None:
        def expired() -> None:
            call(store.kv.set, "k", "old", ttl=10)
            later(store, 11)
            if purged:
                purge(store)

        expired()
        assert call(store.kv.get, "k", MISSING) is MISSING
        assert call(store.kv.consume, "k", MISSING) is MISSING
        assert call(store.kv.delete, "k") is False
        assert call(store.kv.touch, "k", 60) is False
        assert call(store.kv.touch, "k", None) is False
        assert call(store.kv.get, "k", MISSING) is MISSING
        assert call(store.kv.size) == 0
        assert call(store.kv.scan).items == ()
        expired()
        assert call(store.kv.add, "k", "new") is True
        assert call(store.kv.get, "k") == "new"
        later(store, 10_000)
        assert call(store.kv.get, "k") == "new"

    def test_touch_replaces_the_expiry_alone(self, store: Store, call: Call) -> None:
        call(store.kv.set, "shorter", 1, ttl=100)
        call(store.kv.set, "longer", 2, ttl=5)
        call(store.kv.set, "lasting", 3, ttl=5)
        call(store.kv.set, "passing", 4)
        assert call(store.kv.touch, "shorter", 5) is True
        assert call(store.kv.touch, "longer", 100) is True
        assert call(store.kv.touch, "lasting", None) is True
        assert call(store.kv.touch, "passing", 5) is True
        later(store, 6)
        read = [call(store.kv.get, key) for key in ("shorter", "longer", "lasting", "passing")]
        assert read == [None, 2, 3, None]

    def test_reading_does_not_prolong(self, store: Store, call: Call) -> None:
        call(store.kv.set, "k", 1, ttl=60)
        later(store, 40)
        assert call(store.kv.get, "k") == 1
        later(store, 21)
        assert call(store.kv.get, "k") is None

    # -- add, consume, delete -----------------------------------------------------------------------------------------

    def test_add_stores_only_where_nothing_lives(self, store: Store, call: Call) -> None:
        assert call(store.kv.add, "k", 1, ttl=10) is True
        assert call(store.kv.add, "k", 2) is False
        assert call(store.kv.get, "k") == 1
        later(store, 11)  # the one that lost has not taken the expiry away
        assert call(store.kv.get, "k") is None
        assert call(store.kv.add, "k", 3) is True
        later(store, 1000)
        assert call(store.kv.get, "k") == 3

    def test_add_takes_an_expired_key_with_value_and_expiry(self, store: Store, call: Call) -> None:
        call(store.kv.set, "k", "old", ttl=10)
        later(store, 11)
        assert call(store.kv.add, "k", "new", ttl=60) is True
        later(store, 40)
        assert call(store.kv.get, "k") == "new"
        later(store, 21)
        assert call(store.kv.get, "k") is None

    def test_consume_gives_a_value_once(self, store: Store, call: Call) -> None:
        call(store.kv.set, "k", "token", ttl=60)
        assert call(store.kv.consume, "k") == "token"
        assert call(store.kv.consume, "k", MISSING) is MISSING
        assert call(store.kv.get, "k", MISSING) is MISSING
        assert call(store.kv.add, "k", "next") is True
        later(store, 61)  # nothing of the old expiry is left
        assert call(store.kv.consume, "k") == "next"

    def test_delete_tells_whether_there_was_a_value(self, store: Store, call: Call) -> None:
        call(store.kv.set, "k", 1)
        assert call(store.kv.delete, "k") is True
        assert call(store.kv.delete, "k") is False
        assert call(store.kv.get, "k", MISSING) is MISSING

    def test_nothing_is_thrown_out_to_make_room(self, store: Store, call: Call) -> None:
        for number in range(400):
            store.kv.set(f"k{number}", number)
        assert call(store.kv.size) == 400
        assert call(store.kv.get, "k0") == 0

    # -- keys ---------------------------------------------------------------------------------------------------------

    def test_keys_that_look_alike_are_different(self, store: Store, call: Call) -> None:
        for number, key in enumerate(UNLIKE_KEYS):
            assert call(store.kv.add, key, number) is True
        assert [call(store.kv.get, key) for key in UNLIKE_KEYS] == list(range(len(UNLIKE_KEYS)))
        assert call(store.kv.consume, "Key") == 0
        assert call(store.kv.get, "key") == 1

    def test_keys_that_differ_at_their_end_alone_are_different(self, store: Store, call: Call) -> None:
        for end in "ab":
            call(store.kv.set, "k" * 1023 + end, end)
        assert [call(store.kv.get, "k" * 1023 + end) for end in "ab"] == ["a", "b"]

    @pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: ascii(key)[:12])
    def test_any_text_is_a_key(self, store: Store, call: Call, key: str) -> None:
        call(store.kv.set, key, "value", ttl=60)
        assert call(store.kv.get, key) == "value"
        assert [item.key for item in call(store.kv.scan).items] == [key]
        assert call(store.kv.touch, key, 60) is True
        assert call(store.kv.consume, key) == "value"

    def test_a_key_may_be_of_a_subclass_of_str(self, store: Store, call: Call) -> None:
        class Name(enum.StrEnum):
            TURN = "turn"

        call(store.kv.set, Name.TURN, 1)
        assert call(store.kv.get, "turn") == 1

    # -- what is refused ----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("key", BAD_KEYS, ids=lambda key: ascii(key)[:10])
    def test_a_bad_key_is_refused_by_every_operation(self, store: Store, call: Call, key: Any) -> None:
        expected = InvalidKey if isinstance(key, str) else InvalidKeyType
        operations: dict[str, list[Any]] = {
            "get": [], "set": [1], "add": [1], "consume": [], "delete": [], "touch": [60]
        }  # fmt: skip
        for operation, arguments in operations.items():
            with pytest.raises(expected):
                call(getattr(store.kv, operation), key, *arguments)
        assert call(store.kv.size) == 0

    def test_a_bad_ttl_is_refused_and_the_old_value_stays(self, store: Store, call: Call) -> None:
        call(store.kv.set, "k", "old")
        for ttl in BAD_TTLS:
            for operation in (store.kv.set, store.kv.add):
                for key in ("k", "new"):
                    with pytest.raises(InvalidTTL):
                        call(operation, key, "new", ttl)
            with pytest.raises(InvalidTTL):
                call(store.kv.touch, "k", ttl)
        later(store, timedelta(days=3650))
        assert call(store.kv.get, "k") == "old"
        assert call(store.kv.get, "new") is None
