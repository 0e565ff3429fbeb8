"""How keys are named: ``<prefix><part>:<namespace digest>:{<slot tag>}:<key>``.

A part is a facet's name, or that and a word for what else the facet keeps of an entry, as in ``lock.fence``. Every
element before the key has a fixed length and no character that a pattern would read as one, so a namespace is matched
exactly, whatever its names hold; the key is the bytes of its UTF-8. On a cluster the tag keeps the keys of an entry in
one slot, or all those of a facet within a namespace.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from ...keys import Entry

_SPECIAL = re.compile(rb"[*?\[\]\\^-]")
_TAG = 16


class Names:
    """Name the keys of a backend, all of them under one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.encode()

    def of_entry(self, part: str, entry: Entry) -> bytes:
        """Return the key of a part of an entry, in the slot of that entry's namespace and key."""
        tag = _digest(entry.namespace, entry.key)
        return b"%b%b:%b:{%b}:%b" % (
            self.prefix, part.encode(), _namespace(entry.namespace), tag, entry.key.encode(),
        )  # fmt: skip

    def of_facet(self, part: str, namespace: str, facet: str, suffix: str) -> bytes:
        """Return a key in the slot that a facet has within a namespace; ``suffix`` stands where the key would."""
        tag = _digest(namespace, facet)
        return b"%b%b:%b:{%b}:%b" % (self.prefix, part.encode(), _namespace(namespace), tag, suffix.encode())

    def stem(self, part: str, namespace: str) -> bytes:
        """Return what the keys of a part have in common within exactly this namespace."""
        return b"%b%b:%b:{" % (self.prefix, part.encode(), _namespace(namespace))

    def pattern(self, part: str, namespace: str, key_prefix: str = "") -> bytes:
        """Return the pattern of those keys for SCAN; ``key_prefix`` is text."""
        return _escaped(self.stem(part, namespace)) + b"?" * _TAG + b"}:" + _escaped(key_prefix.encode()) + b"*"

    def key_bytes(self, part: str, namespace: str, name: bytes) -> bytes:
        """Return the UTF-8 of the entry's key that is in the name of such a key."""
        return name[len(self.stem(part, namespace)) + _TAG + 2 :]

    def sibling(self, part: str, name: bytes, other: str) -> bytes:
        """Return the name of another part of the same entry."""
        return b"%b%b%b" % (self.prefix, other.encode(), name[len(self.prefix) + len(part) :])


def _escaped(text: bytes) -> bytes:
    return _SPECIAL.sub(rb"\\\g<0>", text)


@lru_cache(maxsize=1024)
def _namespace(path: str) -> bytes:
    return hashlib.sha256(path.encode()).hexdigest()[:32].encode()


def _digest(*parts: str) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4) + encoded)
    return digest.hexdigest()[:_TAG].encode()
