"""The helpers that other tests trust: children are real, see the test databases, and tell how they ended."""

import os

import pytest
from django.contrib.auth.models import Group

from tests import child
from tests.processes import ChildFailed, Processes


def create_group(number: int, alias: str) -> int:
    Group.objects.using(alias).create(name=f"group {number}")
    return os.getpid()


def ask(question: str) -> str:
    child.tell(question)
    child.wait()
    return "answered"


def fail() -> None:
    raise ValueError("the reason")


def test_race_gives_each_child_its_number_and_the_test_database(processes: Processes, alias: str) -> None:
    pids = processes.race(3, create_group, alias)
    assert len({os.getpid(), *pids}) == 4
    names = Group.objects.using(alias).order_by("name").values_list("name", flat=True)
    assert list(names) == ["group 0", "group 1", "group 2"]


def test_a_child_waits_for_its_parent(processes: Processes) -> None:
    patient = processes.start(ask, "ready to go on?")
    assert patient.expect("go on") == "ready to go on?"
    patient.go()
    assert patient.result() == "answered"


def test_an_exception_comes_with_its_traceback(processes: Processes) -> None:
    with pytest.raises(ChildFailed, match=r"in fail\n(.|\n)*ValueError: the reason"):
        processes.start(fail).result()


def test_a_killed_child_gives_no_result(processes: Processes) -> None:
    victim = processes.start(ask, "alive")
    victim.expect("alive")
    victim.pause()
    victim.kill()
    with pytest.raises(ChildFailed, match="died with status -9"):
        victim.result()
    with pytest.raises(ProcessLookupError):
        os.kill(victim.pid, 0)


def test_a_child_ends_with_its_parent(processes: Processes) -> None:
    orphan = processes.start(ask, "alive")
    orphan.expect("alive")
    orphan.abandon()
    with pytest.raises(ChildFailed, match="died with status 1"):
        orphan.result()
