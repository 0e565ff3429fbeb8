"""The reference tables of the guide name everything that is there, and nothing else."""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import get_args

from django.dispatch import Signal

from django_statestore import conf, signals
from django_statestore.contracts.taskrecord import PARKED, Status
from django_statestore.durable import DurableTask, StepContext, TaskHandle
from django_statestore.durable.points import POINTS
from tests.docs.markdown import code, table

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "durable-tasks.md"
UNITS = {"s": 1_000, "min": 60_000, "h": 3_600_000, "days": 86_400_000}


def named(heading: str) -> set[str]:
    """Return what the first column of a table names."""
    return {name for row in table(GUIDE, heading) for name in code(row[0])}


def shown(default: str) -> object:
    """Return the value of a default as the table shows it: a duration as milliseconds."""
    number, _, unit = default.partition(" ")
    return default == "on" if number in ("on", "off") else int(number.replace(",", "")) * UNITS.get(unit, 1)


def test_settings_have_the_defaults_that_are_shown() -> None:
    told = {code(name)[0]: shown(default) for name, default, _ in table(GUIDE, "### Settings")}
    assert told == {field.name.upper(): field.default for field in fields(conf.Settings)}


def test_every_status_and_reason_is_named() -> None:
    assert named("### Status") == set(get_args(Status))
    assert named("### Reasons") == set(PARKED)


def test_every_argument_of_a_definition_is_named() -> None:
    arguments = set(inspect.signature(DurableTask).parameters)
    assert named("### The definition") == arguments - {"id", "revision", "deadline"}


def test_everything_of_the_context_is_named() -> None:
    public = {name for name in dir(StepContext) if not name.startswith("_")}
    set_at_first = {name for name in StepContext.__init__.__code__.co_names if not name.startswith("_")}
    assert public <= named("### The context") <= public | set_at_first


def test_everything_of_a_handle_is_named() -> None:
    public = {name for name in dir(TaskHandle) if not name.startswith("_")}
    twins = {name for name in public if name.removeprefix("a") in public - {name}}
    assert named("### The handle") == public - twins


def test_every_event_and_crash_point_is_named() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    events = [name for name, value in vars(signals).items() if isinstance(value, Signal)]
    assert events
    for name in (*(f"`{event}`" for event in events), *(f'`"{point}"`' for point in POINTS)):
        assert name in text, f"the guide says nothing of {name}"
