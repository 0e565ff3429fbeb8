"""The accounting after the outages: what is in the store, against what the workers were told."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from django_statestore import Store
from django_statestore.testing import age
from tests import child
from tests.outages.load import Ledger, Note
from tests.outages.scripts import BACKLOG, LARGE, LEASE, LISTED, MISSING, ONCE, fill, saved
from tests.outages.targets import Target


def keep(target: Target, namespace: str, ledgers: Path) -> list[str]:
    """Fill the store, wait until the load is over, and return what is wrong then."""
    store = target.store(namespace)
    fill(store)
    child.tell("filled")
    child.wait()
    return Accounts(store, pickle.loads(ledgers.read_bytes())).wrong()


class Accounts:
    """All ledgers of a load against its store."""

    def __init__(self, store: Store, ledgers: Sequence[Ledger]) -> None:
        self.store, self.ledgers = store, ledgers

    def wrong(self) -> list[str]:
        """Return what does not add up; empties the queue."""
        found = [text for ledger in self.ledgers for text in ledger.wrong]
        for check in (self._own, self._standing, self._list, self._seen, self._claims, self._once, self._turns):
            found += check()
        age(self.store, LEASE + 1)  # what was taken and neither acknowledged nor released is back
        return [*found, *self._queue()]

    def _notes(self, *what: str) -> list[Note]:
        return [note for ledger in self.ledgers for note in ledger.notes if note.what in what]

    def _own(self) -> Iterator[str]:
        held: dict[str, Callable[[str], Any]] = {
            "kv": self.store.kv.get,
            "handoff": self.store.handoff.get,
            "spool": self._body,
            "durable": self._state,
        }
        for ledger in self.ledgers:
            for (facet, key), possible in ledger.possible.items():
                value = held[facet](key)
                if value not in possible:
                    yield f"{facet} {key}: {value!r:.80}, not one of {possible!r:.80}"

    def _body(self, key: str) -> str | None:
        reader = self.store.spool.read(key)
        return None if reader is None else str(reader.read_all())

    def _state(self, key: str) -> Any:
        checkpoint = self.store.durable.load(key)
        return None if checkpoint is None else checkpoint.state

    def _standing(self) -> Iterator[str]:
        now = (
            self.store.kv.get("standing"),
            self.store.handoff.get("standing"),
            self._body("standing"),
            self.store.durable.load("standing"),
            self.store.dedup.seen("standing", 600),
            self.store.list.range("standing"),
        )
        if now != ("value", {"a": 1}, LARGE, saved(1), True, LISTED):
            yield f"what was there before is not there after: {now!r:.200}"

    def _list(self) -> Iterator[str]:
        there, notes = self.store.list.range("all"), self._notes("append")
        yield from once_each("list", there, notes)
        if self.store.list.length("all") != len(there):
            yield "list: its length is not the count of its items"
        lengths = Counter(note.value for note in notes if note.outcome == "done")
        if any(count > 1 for count in lengths.values()):
            yield "list: two appends were told the same length"
        for note in notes:  # nothing is ever taken away: the length that was told is the place
            if note.outcome == "done" and there[note.value - 1 : note.value] != [note.key]:
                yield f"list: {note.key} is not at the place that it was told"

    def _queue(self) -> Iterator[str]:
        depth, left = self.store.queue.depth("all"), []
        while (item := self.store.queue.dequeue("all", MISSING)) != MISSING:
            left.append(item)
        if depth != len(left):
            yield f"queue: its depth was {depth}, and {len(left)} items were in it"
        had = [note.value for note in self._notes("dequeue") if note.outcome == "done"]
        had += [note.key for note in self._notes("ack") if note.outcome == "done"]
        maybe = [note.key for note in self._notes("ack") if note.outcome == "unknown"]
        # The outcome of a dequeue that is unknown may have taken one item, whichever.
        spared = len([note for note in self._notes("dequeue") if note.outcome == "unknown"])
        given = [Note("enqueue", f"backlog-{number}", "done") for number in range(BACKLOG)] + self._notes("enqueue")
        found = [*left, *had, *(item for item in maybe if item not in left)]
        yield from once_each("queue", found, given, spared)
        for ledger in self.ledgers:  # whoever gives knows the order
            numbers = [item.rsplit("-", 1)[1] for item in left if item.startswith(f"{ledger.name}-")]
            if numbers != sorted(numbers, key=lambda number: (int(number[:-1]), number[-1])):
                yield f"queue: the items of {ledger.name} are not in order"

    def _seen(self) -> Iterator[str]:
        for key, notes in grouped(self._notes("seen")):
            first = [note for note in notes if note.outcome == "done" and note.value is False]
            yield from one_winner("dedup.seen", key, len(first), notes)
            if any(note.outcome == "done" for note in notes) and not self.store.dedup.seen(key, 600):
                yield f"dedup.seen {key}: the window is gone"

    def _claims(self) -> Iterator[str]:
        for key, notes in grouped(self._notes("claim", "confirm")):
            new = [note for note in notes if note.value == "new"]
            claims = [note for note in notes if note.what == "claim"]
            yield from one_winner("dedup.claim", key, len(new), claims)
            confirmed = {note.outcome for note in notes if note.what == "confirm"}
            state = self.store.dedup.claim(key, 600).state
            if confirmed == {"done"} and state != "done":
                yield f"dedup.claim {key}: it was confirmed and is {state}"
            if new and confirmed == {"refused"} and state != "pending":
                yield f"dedup.claim {key}: it was not confirmed and is {state}"
            if any(note.value == "done" for note in claims) and not confirmed & {"done", "unknown"}:
                yield f"dedup.claim {key}: nobody confirmed it, and it was called done"

    def _once(self) -> Iterator[str]:
        there: dict[str, Any] = {"consume": self.store.kv.get, "get_and_delete": self.store.handoff.get}
        for what, get in there.items():
            tried = dict(grouped(self._notes(what)))
            for number in range(ONCE):
                key = f"once-{number}"
                notes, left = tried.get(key, []), get(key) is not None
                won = len([note for note in notes if note.outcome == "done" and note.value != MISSING])
                if won + left > 1:
                    yield f"{what} {key}: {won} had it, and it is {'there' if left else 'gone'}"
                if not won + left and not any(note.outcome == "unknown" for note in notes):
                    yield f"{what} {key}: nobody had it, and it is gone"
                if left and any(note.outcome == "done" for note in notes):
                    yield f"{what} {key}: it was missed, and it is there"

    def _turns(self) -> Iterator[str]:
        turns = sorted(note.value for note in self._notes("turn"))
        for (fence, _, held), (next_fence, got, _) in itertools.pairwise(turns):
            if fence == next_fence:
                yield f"lock: two holders with the fence {fence}"
            if got < held:
                yield f"lock: the holder of {next_fence} had it before the holder of {fence} gave it back"


def once_each(what: str, found: Sequence[str], given: Sequence[Note], spared: int = 0) -> Iterator[str]:
    """Check that all that was given is found once, what may have been at most once, and nothing else."""
    counts = Counter(found)
    if twice := [item for item, count in counts.items() if count > 1]:
        yield f"{what}: twice there: {twice[:5]}"
    lost = [note.key for note in given if note.outcome == "done" and not counts[note.key]]
    if len(lost) > spared:
        yield f"{what}: {len(lost)} were acknowledged and are gone, {spared} may be: {lost[:5]}"
    may = {note.key for note in given if note.outcome in ("done", "unknown")}
    if strange := [item for item in counts if item not in may]:
        yield f"{what}: there, though it was said that they are not: {strange[:5]}"


def one_winner(what: str, key: str, winners: int, notes: Sequence[Note]) -> Iterator[str]:
    answered = [note for note in notes if note.outcome == "done"]
    if winners > 1:
        yield f"{what} {key}: {winners} were the first"
    if not winners and answered and not any(note.outcome == "unknown" for note in notes):
        yield f"{what} {key}: nobody was the first"


def grouped(notes: Sequence[Note]) -> Iterator[tuple[str, list[Note]]]:
    keys: dict[str, list[Note]] = {}
    for note in notes:
        keys.setdefault(note.key, []).append(note)
    yield from keys.items()
