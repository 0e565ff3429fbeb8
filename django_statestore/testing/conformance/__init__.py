"""The conformance kit: every rule that holds for all backends, as test classes. README.md beside this file says how.

Each class is one family of rules. Its cases need pytest, and nothing else beside this package.
"""

from __future__ import annotations

from . import rewriting  # noqa: F401
from .base import Conformance, later, purge
from .calling import Call, at_once
from .dedup import DedupConformance
from .differences import DifferenceConformance
from .durable import DurableConformance
from .errors import ErrorConformance, SecretConformance
from .handoff import HandoffConformance
from .hold import HoldConformance
from .kv import KVConformance
from .listing import ListingConformance
from .lists import ListConformance
from .lock import LockConformance
from .once import OnceConformance
from .queue import QueueConformance
from .races import RaceConformance
from .reader import ArtifactConformance, ReaderConformance
from .spool import SpoolConformance
from .uploads import UploadConformance
from .values import ValueConformance

FAMILIES: tuple[type[Conformance], ...] = (
    KVConformance,
    ListConformance,
    LockConformance,
    HoldConformance,
    DedupConformance,
    OnceConformance,
    QueueConformance,
    HandoffConformance,
    SpoolConformance,
    UploadConformance,
    ReaderConformance,
    ArtifactConformance,
    DurableConformance,
    ListingConformance,
    ValueConformance,
    ErrorConformance,
    SecretConformance,
    DifferenceConformance,
    RaceConformance,
)
"""Every class of the kit."""


def tests(mine: type, *families: type[Conformance]) -> dict[str, type]:
    """Return a test class for each family, by name: ``globals().update(conformance.tests(Mine))``.

    ``mine`` is the class with ``make``; without ``families`` it is held to all of them.
    """
    made = {}
    for family in families or FAMILIES:
        name = f"Test{family.__name__.removesuffix('Conformance')}"
        made[name] = type(name, (mine, family), {"__module__": mine.__module__, "__doc__": family.__doc__})
    return made


__all__ = [
    "FAMILIES",
    "ArtifactConformance",
    "Call",
    "Conformance",
    "DedupConformance",
    "DifferenceConformance",
    "DurableConformance",
    "ErrorConformance",
    "HandoffConformance",
    "HoldConformance",
    "KVConformance",
    "ListConformance",
    "ListingConformance",
    "LockConformance",
    "OnceConformance",
    "QueueConformance",
    "RaceConformance",
    "ReaderConformance",
    "SecretConformance",
    "SpoolConformance",
    "UploadConformance",
    "ValueConformance",
    "at_once",
    "later",
    "purge",
    "tests",
]
