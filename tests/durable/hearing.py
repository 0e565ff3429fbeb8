"""Receivers that note what the signals of durable tasks tell, and what goes to the broker."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from celery.signals import before_task_publish

from django_statestore import signals

NAMES = {
    name: signal
    for name, signal in vars(signals).items()
    if name in {"task_started", "step_finished", "task_finished", "task_parked", "lease_lost"}
}


@dataclass(frozen=True)
class Heard:
    """Be one event as a receiver was told of it."""

    name: str
    sender: Any
    told: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.told[name]


@dataclass
class Ears:
    """Hold what was heard of one task, or of all of them, in order."""

    all: list[Heard] = field(default_factory=list)

    def of(self, task_id: str) -> list[Heard]:
        return [heard for heard in self.all if heard["task_id"] == task_id]

    @property
    def names(self) -> list[str]:
        return [heard.name for heard in self.all]

    def named(self, name: str) -> list[Heard]:
        return [heard for heard in self.all if heard.name == name]


@contextmanager
def listening(also: Callable[..., Any] | None = None) -> Iterator[Ears]:
    """Hear all five signals; ``also`` is called with each event too, in its own form."""
    ears, receivers = Ears(), []
    for name, signal in NAMES.items():

        def receive(sender: Any, signal: Any, name: str = name, **told: Any) -> None:
            heard = Heard(name, sender, told)
            ears.all.append(heard)
            if also and not inspect.iscoroutinefunction(also):
                also(heard)

        receivers.append((signal, receive))
        signal.connect(receive)
    try:
        yield ears
    finally:
        for signal, receive in receivers:
            assert signal.disconnect(receive)


@contextmanager
def published() -> Iterator[list[Any]]:
    """Note every message that is handed to the broker."""
    messages: list[Any] = []

    def note(body: Any, **kwargs: Any) -> None:
        messages.append(body)

    before_task_publish.connect(note)
    try:
        yield messages
    finally:
        before_task_publish.disconnect(note)
