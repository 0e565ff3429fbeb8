"""Workers that ask a store without pause while its server comes and goes, and keep a ledger of what they were told.

What a worker does is a script that yields what it asks for and is sent what came of it; so a script serves both forms.
"""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections

from django_statestore.exceptions import OutcomeUnknown, StoreUnavailable
from tests import child
from tests.outages.targets import Target

Outcome: TypeAlias = Literal["done", "refused", "unknown", "wrong"]
"""It was answered; it was certainly not done; it may have been done; nothing of these, which no test forgives."""


@dataclass(frozen=True)
class Answer:
    outcome: Outcome
    value: Any = None

    @property
    def done(self) -> bool:
        return self.outcome == "done"


@dataclass(frozen=True)
class Ask:
    """An operation with a twin, and whether it writes."""

    operation: Callable[..., Any]
    arguments: tuple[Any, ...]
    writes: bool

    def run(self) -> Answer:
        try:
            return Answer("done", self.operation(*self.arguments))
        except Exception as error:
            return self._judged(error)

    async def arun(self) -> Answer:
        twin = getattr(self.operation.__self__, f"a{self.operation.__name__}")  # type: ignore[attr-defined]
        try:
            return Answer("done", await twin(*self.arguments))
        except Exception as error:
            return self._judged(error)

    def _judged(self, error: Exception) -> Answer:
        if isinstance(error, StoreUnavailable):
            return Answer("refused")
        if isinstance(error, OutcomeUnknown) and self.writes:
            return Answer("unknown")
        return Answer("wrong", f"{self.operation.__qualname__}: {''.join(traceback.format_exception(error))}")


Script: TypeAlias = Generator[Ask, Answer, None]


def read(operation: Callable[..., Any], *arguments: Any) -> Ask:
    return Ask(operation, arguments, writes=False)


def write(operation: Callable[..., Any], *arguments: Any) -> Ask:
    return Ask(operation, arguments, writes=True)


@dataclass(frozen=True)
class Note:
    """One line of the ledger."""

    what: str
    key: str
    outcome: Outcome
    value: Any = None


@dataclass
class Ledger:
    """What one worker was told."""

    name: str
    notes: list[Note] = field(default_factory=list)
    possible: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    """What an entry that is this worker's alone may hold, by facet and key; None: nothing."""
    wrong: list[str] = field(default_factory=list)
    counts: dict[Outcome, int] = field(
        default_factory=lambda: dict.fromkeys(("done", "refused", "unknown", "wrong"), 0)
    )

    def note(self, what: str, key: str, answer: Answer, value: Any = None) -> None:
        self.notes.append(Note(what, key, answer.outcome, answer.value if value is None else value))

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(f"{self.name}: {what}")


class Crew:
    """The workers of a process; tells the parent when all are cut off from the server, and when all are back."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._lock, self._told = threading.Lock(), ""
        self._cut: dict[str, bool | None] = {}

    def join(self, name: str) -> None:
        self._cut[name] = None

    def heard(self, ledger: Ledger, answer: Answer) -> None:
        ledger.counts[answer.outcome] += 1
        if answer.outcome == "wrong":
            ledger.wrong.append(f"{ledger.name}: {answer.value}")
        if answer.outcome in ("done", "refused") and self._cut[ledger.name] is not (answer.outcome == "refused"):
            with self._lock:
                self._cut[ledger.name] = answer.outcome == "refused"
                states = set(self._cut.values())
                news = "cut off" if states == {True} else "at work" if states == {False} else self._told
                if news != self._told:
                    self._told = news
                    child.tell(news)


def run(script: Script, crew: Crew, ledger: Ledger) -> None:
    try:
        ask = next(script)
        while True:
            answer = ask.run()
            crew.heard(ledger, answer)
            if not answer.done:
                time.sleep(0.02)
            ask = script.send(answer)
    except StopIteration:
        pass
    finally:
        connections.close_all()


async def arun(script: Script, crew: Crew, ledger: Ledger) -> None:
    async with ThreadSensitiveContext():  # as a request has it
        try:
            ask = next(script)
            while True:
                answer = await ask.arun()
                crew.heard(ledger, answer)
                if not answer.done:
                    await asyncio.sleep(0.02)
                ask = script.send(answer)
        except StopIteration:
            pass
        finally:
            await sync_to_async(connections.close_all)()


def work(target: Target, namespace: str, name: str, count: int, asynchronous: bool) -> list[Ledger]:
    """Let so many workers work until the parent says `go` again; return their ledgers."""
    from tests.outages.scripts import script

    crew, ledgers = Crew(), [Ledger(f"{name}-{number}") for number in range(count)]
    store = target.store(namespace)
    for ledger in ledgers:
        crew.join(ledger.name)

    async def main() -> None:
        await asyncio.gather(*(arun(script(store, ledger, crew.stopped.is_set), crew, ledger) for ledger in ledgers))

    if asynchronous:
        threads = [threading.Thread(target=lambda: asyncio.run(main()))]
    else:
        threads = [
            threading.Thread(target=run, args=(script(store, ledger, crew.stopped.is_set), crew, ledger))
            for ledger in ledgers
        ]
    for thread in threads:
        thread.start()
    child.wait()
    crew.stopped.set()
    for thread in threads:
        thread.join()
    return ledgers
