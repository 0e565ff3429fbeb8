"""Compare the codec with the json module, in one run and as ratios: ``python -m tests.benchmarks.bench_codec``.

The calls take turns in short rounds and the best round of each counts, so a busy machine disturbs them alike.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from time import perf_counter
from typing import Any

from django_statestore import codec

ROUNDS, CALLS = 300, 50

DOCUMENT: dict[str, Any] = {
    "order": "o-1829",
    "customer": {"id": 48213, "name": "Ada Lovelace", "email": "ada@example.org", "vip": True, "score": 0.87},
    "messages": [
        {"role": "user", "content": "Where is my parcel? It was due on Monday and nothing came.", "tokens": 17, "n": 1},
        {"role": "assistant", "content": "I will look that up for you at once, one moment please.", "tokens": 14},
        {
            "role": "tool",
            "content": '{"carrier":"DHL","state":"in transit","eta":"2026-03-01"}',
            "tokens": 31,
            "ms": 0.4,
        },
    ],
    "items": [
        {"sku": "A-1", "n": 2, "price": 1999, "tags": ["a", "b"]},
        {"sku": "B-7", "n": 1, "price": 499, "tags": ["c"]},
    ],
    "flags": [True, False, None, 1, 2, 3, 4, 5.5, "f", "g", None, 8],
    "next": None,
    "notes": "The customer was told that the carrier will call back before Thursday noon. " * 4,
    "limits": {"calls": 20, "used": 3, "per_attempt": 5},
}
TAGGED = {**DOCUMENT, "at": datetime(2026, 3, 1, 12, 30, tzinfo=UTC), "total": Decimal("44.97")}
EMOJI = {**DOCUMENT, "next": "on its way \N{SMILING FACE WITH OPEN MOUTH}"}


def nodes(value: Any) -> int:
    """Count a value and everything in it."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(nodes, children))


def best(calls: dict[str, tuple[Callable[[Any], Any], Any]]) -> dict[str, float]:
    """Return the best time of a call of each, in microseconds."""
    times = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, (call, argument) in calls.items():
            start = perf_counter()
            for _ in range(CALLS):
                call(argument)
            times[name] = min(times[name], (perf_counter() - start) / CALLS * 1e6)
    return times


def main() -> None:
    """Print one line a case: microseconds, and how many times what the json module takes for the plain document."""
    times = best(
        {
            "json.dumps": (json.dumps, DOCUMENT),
            "dumps": (codec.dumps, DOCUMENT),
            "dumps, datetime and Decimal": (codec.dumps, TAGGED),
            "dumps, an emoji": (codec.dumps, EMOJI),
            "json.loads": (json.loads, json.dumps(DOCUMENT)),
            "loads": (codec.loads, codec.dumps(DOCUMENT)),
            "loads, datetime and Decimal": (codec.loads, codec.dumps(TAGGED)),
        }
    )
    out = [f"{len(codec.dumps(DOCUMENT))} bytes, {nodes(DOCUMENT)} nodes, Python {sys.version.split()[0]}"]
    for name, time in times.items():
        base = times["json.dumps" if "dumps" in name else "json.loads"]
        out.append(f"{name:<30}{time:7.2f} us   x {time / base:.2f}")
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
