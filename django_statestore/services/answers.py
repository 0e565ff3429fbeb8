"""Answer what a task waits for, as a person does: by the form and with the permission that the wait names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django import forms
from django.apps import apps
from django.core.exceptions import PermissionDenied, ValidationError

from .. import flow
from ..contracts.mailbox import Request
from ..contracts.taskrecord import TaskRecord
from ..durable.requests import RESERVED, asked, signal_request
from ..durable.waiting import Wait, waiting_of
from ..exceptions import AlreadyAnswered, NotWaiting, TaskFinished, ValueNotSerializable
from ..store import Store
from .repair import place_of

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

DEFAULT_PERMISSION = "statestore.change_task"
"""What a user needs to answer a wait that names no permission."""


def answer(store: Store, task_id: str, data: Mapping[str, Any], user: AbstractBaseUser | AnonymousUser) -> TaskRecord:
    """Send the signal that the task waits for, with the cleaned data of its form, in the name of ``user``.

    ``store`` is at the task's namespace. ``PermissionDenied``: the user lacks the wait's permission.
    ``ValidationError`` holds the errors of the form, or says what of its data is no value that can be kept.
    ``NotWaiting``: for nothing that a form could answer. ``AlreadyAnswered``: another was faster; of all answers to one
    wait one counts.
    """
    place = place_of(store, task_id)
    record = flow.run(place.read_driven())
    wait = _wait(record)
    if not may_answer(wait, user):
        raise PermissionDenied(f"this user may not answer what the task {task_id!r} waits for")
    form = form_class(wait.form)(data=data)
    if not form.is_valid():
        raise ValidationError(form.errors.as_data())
    try:
        request = _request(record, wait, form.cleaned_data, user.get_username())
    except ValueNotSerializable as error:  # such as a model instance: the form should clean it to its key
        raise ValidationError(f"the answer cannot be kept: {error}") from error
    reply = flow.run(asked(place, request))
    if reply.answered == "known":
        raise AlreadyAnswered(f"another has answered what the task {task_id!r} waits for")
    return flow.run(place.read())


def may_answer(wait: Wait, user: Any) -> bool:
    """Return whether the user has the permission that the wait names, or else the one to change tasks."""
    return bool(user.is_active and user.has_perm(wait.permission or DEFAULT_PERMISSION))


def form_class(name: str) -> type[forms.BaseForm]:
    """Return the form named ``module:QualName``; ``NotWaiting``: it is none of an installed app.

    The name comes from the store, so nothing else is ever imported or called on its behalf.
    """
    module, _, path = name.partition(":")
    if not any(module == app.name or module.startswith(f"{app.name}.") for app in apps.get_app_configs()):
        raise NotWaiting(f"the form {name!r} is not in an installed app: answer the wait with a signal")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = vars(found)[part]
    except (ImportError, KeyError, TypeError):
        raise NotWaiting(f"there is no form {name!r} (any more): answer the wait with a signal") from None
    if not isinstance(found, type) or not issubclass(found, forms.BaseForm):
        raise NotWaiting(f"{name!r} is not a Django form: answer the wait with a signal")
    return found


def _wait(record: TaskRecord) -> Wait:
    if record.finished:
        raise TaskFinished(f"the task {record.key!r} has ended already")
    wait = waiting_of(record)
    if wait is None:
        raise NotWaiting(f"the task {record.key!r} waits for no signal")
    if not wait.form:
        raise NotWaiting(f"the task {record.key!r} waits for a signal that names no form: it is for programs to send")
    return wait


def _request(record: TaskRecord, wait: Wait, payload: Any, sender: str) -> Request:
    request = signal_request(wait.name, payload, None, sender)
    # The attempts spent by then name the wait: a later one of the same name has more, and a migration leaves them.
    return replace(request, key=f"{RESERVED}answer:{record.attempts}")
