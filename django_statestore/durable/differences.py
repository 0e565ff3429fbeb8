"""The fingerprint of a definition's steps, and in words how the steps behind an old one differ from those at hand."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from .definition import Definition

Outline: TypeAlias = list[tuple[str, str]]
"""The name and the replay policy of each step, in order."""

_DIGEST = 22  # characters of base64 for 16 bytes


def fingerprint_of(id: str, revision: str, steps: Outline) -> str:
    """Return the text that stands for a definition's shape: a digest, and the steps so that people can read them."""
    shape = json.dumps([id, revision, [list(step) for step in steps]])
    digest = base64.urlsafe_b64encode(hashlib.sha256(shape.encode()).digest()[:16]).decode().rstrip("=")
    return " ".join([digest, *(f"{name}:{policy}" for name, policy in steps)])


def outline_of(fingerprint: str) -> Outline | None:
    """Return the steps that a fingerprint tells of; None: it tells of none, as that of a foreign engine's task."""
    digest, *steps = fingerprint.split(" ")
    pairs = [step.rpartition(":") for step in steps]
    if len(digest) != _DIGEST or not steps or not all(name and policy for name, _, policy in pairs):
        return None
    return [(name, policy) for name, _, policy in pairs]


def name_of_step(fingerprint: str, index: int) -> str | None:
    """Return the name of a step by the fingerprint alone; None: there is no such step, or it is not told."""
    outline = outline_of(fingerprint)
    return outline[index][0] if outline and 0 <= index < len(outline) else None


def differences(fingerprint: str, definition: Definition[Any]) -> list[str]:
    """Return in words, each without a full stop, how the steps of ``definition`` differ from those of an old task."""
    old, new = outline_of(fingerprint), definition.outline
    if old is None:
        return ["its steps were not noted"]
    was, now = dict(old), dict(new)
    said = [
        f"step {name!r} was {policy}, is {now[name]}" for name, policy in old if name in now and now[name] != policy
    ]
    said += [f"step {name!r} is gone" for name, _ in old if name not in now]
    said += [f"step {name!r} is new" for name, _ in new if name not in was]
    before, after = [name for name, _ in old if name in now], [name for name, _ in new if name in was]
    if before != after:
        said.append(f"the order was {_listed(before)}, is {_listed(after)}")
    return said


def difference(fingerprint: str, definition: Definition[Any]) -> str:
    """Return the differences as the end of a sentence, with a semicolon before each; ``""``: the steps are the same."""
    return "".join(f"; {each}" for each in differences(fingerprint, definition))


def _listed(names: Sequence[str]) -> str:
    return " ".join(map(repr, names))
