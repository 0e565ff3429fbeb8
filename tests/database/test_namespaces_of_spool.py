"""spool on a database: blobs of one namespace, and no other's."""

from __future__ import annotations

from django_statestore.store import Store
from tests.calling import Call
from tests.unit.spools import states

NAMESPACES = [("a_b",), ("aXb",), ("x[1]",), ("x1",), ("*",), ("%",), ("a_b", "c"), ("a_b/c",), ("foo",), ("foobar",)]


def test_namespaces_are_apart(store: Store, call: Call) -> None:
    left = {(): store} | {names: store.namespace(*names) for names in NAMESPACES}
    for names, one in left.items():
        call(one.spool.write, "c", repr(names))
    for names in NAMESPACES:
        cleared = left.pop(names)
        call(cleared.spool.clear)
        assert call(cleared.spool.read, "c") is None
        assert states(cleared) == {"dropped": 1}
        for kept, other in left.items():
            reader = call(other.spool.read, "c")
            assert reader is not None
            assert call(reader.read_all) == repr(kept)
            assert call(other.spool.size) == 1
            assert states(other) == {"live": 1}
