"""What ``manage.py check`` says: the message is the problem, the hint is the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register

from . import beat, conf, stores
from .durable.registry import definitions
from .exceptions import StateStoreError


@register("statestore")
def check_stores(**kwargs: Any) -> Sequence[CheckMessage]:
    """Report stores that cannot be made as they are configured, and what each backend has to say."""
    messages: list[CheckMessage] = []
    for alias in stores:
        try:
            messages += stores[alias].backend.check()
        except StateStoreError as error:
            messages.append(Error(str(error), hint="Correct this setting.", id="statestore.E001"))
    return messages


@register(Tags.database)
def check_servers(databases: Sequence[str] | None = None, **kwargs: Any) -> Sequence[CheckMessage]:
    """Report what is wrong with the servers of stores: they are asked where databases are, so with ``--database``."""
    messages: list[CheckMessage] = []
    for alias in stores if databases else ():
        try:
            backend = stores[alias].backend
        except StateStoreError:  # reported above
            continue
        try:
            messages += backend.check_server()
        except StateStoreError as error:
            messages.append(Error(f"STATESTORES[{alias!r}]: {error}", hint="Correct this.", id="statestore.E005"))
    return messages


@register("statestore")
def check_settings(**kwargs: Any) -> Sequence[CheckMessage]:
    """Report values of ``STATESTORE`` that are wrong, or do not go together."""
    try:
        settings = conf.get()
    except StateStoreError as error:
        return [Error(str(error), hint="Correct this setting.", id="statestore.E002")]
    messages: list[CheckMessage] = []
    if settings.lease < 1000:
        messages.append(
            Warning(
                "STATESTORE['LEASE'] is under a second: a worker that is busy for a moment loses its task.",
                hint="Give at least a few seconds; only a dead worker's task has to wait for it.",
                id="statestore.W001",
            )
        )
    if settings.notify_grace < settings.sweep_every:
        messages.append(
            Warning(
                "STATESTORE['NOTIFY_GRACE'] is under SWEEP_EVERY: each sweep sends another message for a task that "
                "waits in the broker.",
                hint="Make it several times SWEEP_EVERY.",
                id="statestore.W002",
            )
        )
    return messages


@register("statestore")
def check_sweep(**kwargs: Any) -> Sequence[CheckMessage]:
    """Report durable tasks that no beat would resume."""
    if check_settings() or not conf.get().hints or not definitions() or beat.schedules_sweep() is not False:
        return []
    return [
        Warning(
            "There are durable tasks, but the beat schedule of the Celery app has no sweep: a task whose worker dies "
            "stays where it is.",
            hint="Add django_statestore.beat.beat_schedule() to app.conf.beat_schedule; where statestore_worker does "
            "the work instead, set STATESTORE['HINTS'] to False.",
            id="statestore.W003",
        )
    ]
