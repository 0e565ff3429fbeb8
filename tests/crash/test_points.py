"""The crash points themselves: they see every statement, kill where they are told, and leave nothing behind."""

import signal
import threading

from django.contrib.auth.models import Group
from django.db import connections, transaction

from django_statestore import Store
from django_statestore.testing import CrashPoints
from tests.crash.forks import fork
from tests.processes import Processes


def test_points_are_named_in_order(store: Store) -> None:
    with CrashPoints() as points:
        store.kv.set("k", 1)
        points.here("between")
        store.kv.get("k")
    store.kv.get("k")
    assert [name.split(" ")[0:2] for name in points.passed] == [
        ["before:", "insert"],
        ["after:", "insert"],
        ["between"],
        ["before:", "select"],
        ["after:", "select"],
    ]
    assert points._around not in connections[store.alias].execute_wrappers


def test_where_chooses_the_points_that_count(store: Store) -> None:
    with CrashPoints(where=lambda name: name.startswith("after")) as points:
        store.kv.get("k")
    assert len(points.passed) == 1


def test_other_threads_count(store: Store) -> None:
    def look() -> None:
        Group.objects.using(store.alias).count()
        connections.close_all()

    with CrashPoints() as points:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert len([name for name in points.passed if "auth_group" in name]) == 2


def write_and_die(alias: str, kill_at: int) -> int:
    def work() -> None:
        with CrashPoints(kill_at) as points:
            with transaction.atomic(alias):
                Group.objects.using(alias).create(name="first")
                points.here("inside")
            Group.objects.using(alias).create(name="second")
            points.here("at the end")

    return fork(work)


def test_a_killed_process_leaves_what_it_committed(processes: Processes, alias: str) -> None:
    groups = Group.objects.using(alias)
    with CrashPoints() as points, transaction.atomic(alias):
        groups.create(name="first")
    inside = len(points.passed)
    for kill_at, names in ((inside, []), (inside + 1, ["first"]), (inside + 3, ["first", "second"])):
        groups.all().delete()
        assert processes.start(write_and_die, alias, kill_at).result() == -signal.SIGKILL
        assert sorted(groups.values_list("name", flat=True)) == names
