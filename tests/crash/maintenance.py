"""What is killed beside the drive of a task: the sweep, the purge, a cancel, and a start inside a transaction.

Each function runs in a child, forks what dies, and looks at what it left. It returns the points.
"""

import base64
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from celery import Celery
from django.contrib.auth.models import Group
from django.db import connections, transaction

from django_statestore import conf, stores
from django_statestore.models import Job, MailboxItem, Snapshot, Task
from django_statestore.services.purge import purge
from django_statestore.services.sweep import sweep
from django_statestore.services.work import drive_due
from django_statestore.testing import CrashPoints, age
from tests.crash.checks import killed_at
from tests.crash.forks import LEASE, configure, die
from tests.crash.journey import START
from tests.crash.scripted import FOREIGN, SCRIPTED, WIDE, Script, rows_of


def kill_each(
    prepare: Callable[[str], None], work: Callable[[str], object], check: Callable[[str], None], prefix: str = ""
) -> list[str]:
    """Prepare, kill `work` and check what is left, for each of its points; each time in another namespace."""
    points, whole = CrashPoints(), f"{prefix}whole"
    prepare(whole)
    with points:
        work(whole)
        points.here("it has returned")
    check(whole)

    def killed(namespace: str, number: int) -> None:
        with CrashPoints(number) as points:
            work(namespace)
            points.here("it has returned")

    for number, name in enumerate(points.passed):
        namespace = f"{prefix}killed-{number}"
        prepare(namespace)
        connections.close_all()
        with killed_at(name):
            die(lambda: killed(namespace, number), name)  # noqa: B023
            check(namespace)
    connections.close_all()
    return points.passed


# -- purge ------------------------------------------------------------------------------------------------------------


def purge_killed(alias: str) -> list[str]:
    configure()
    task = SCRIPTED[alias]

    def prepare(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        task.start(START, task_id="t", namespace=[namespace])
        task.cancel("t", namespace=[namespace])
        store.kv.set("k", 1, ttl=60)
        store.spool.write("s", b"text")
        store.spool.write("s", b"another")
        age(store, timedelta(days=20))

    def check(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        for record in Task.objects.using(alias).all():
            kept = Snapshot.objects.using(alias).filter(task_id=record.pk).count()
            assert kept == record.save_seq + 1, "a task that lost some of its rows"
        tasks = Task.objects.using(alias).values("pk")
        assert not Snapshot.objects.using(alias).exclude(task_id__in=tasks).exists(), "rows without their task"
        assert not MailboxItem.objects.using(alias).exclude(task_id__in=tasks).exists(), "rows without their task"
        reader = store.spool.read("s")
        assert reader is not None
        assert reader.read_all() == "another"
        purge(alias)
        assert not Task.objects.using(alias).exists()
        job = Job.objects.using(alias).get(kind="purge")
        assert job.succeeded_at is not None and job.succeeded_at >= job.started_at  # noqa: PT018
        assert not Snapshot.objects.using(alias).exists()
        assert not MailboxItem.objects.using(alias).exists()

    return kill_each(prepare, lambda namespace: purge(alias), check)


# -- sweep ------------------------------------------------------------------------------------------------------------


def sweep_killed(alias: str, folder: Path) -> list[str]:
    """Kill the sweep: each task is hinted once at the most, and again when the hint has been trusted long enough."""
    configure(HINTS=True, NOTIFY_GRACE=300)
    broker = Celery("crash", broker="filesystem://")
    broker.conf.broker_transport_options = {
        "data_folder_in": str(folder),
        "data_folder_out": str(folder),
        "control_folder": str(folder / "control"),
    }
    broker.set_default()
    task, ids = SCRIPTED[alias], ("fresh", "interrupted", "asked to end")

    def messages(namespace: str) -> Counter[str]:
        bodies = [json.loads(path.read_text())["body"] for path in folder.glob("*.celery.msg")]
        arguments = [json.loads(base64.b64decode(body))[0] for body in bodies]
        return Counter(id for _, names, id in arguments if names == [namespace])

    def prepare(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        for id in ids:
            task.start(START, task_id=id, namespace=[namespace])
        for path in folder.glob("*.celery.msg"):
            path.unlink()
        connections.close_all()
        die(lambda: task.run("interrupted", namespace=[namespace], app=Script(on={"begin": _die})), "a step")
        with transaction.atomic(alias):
            task.cancel("asked to end", namespace=[namespace])
            transaction.get_connection(alias).run_on_commit.clear()  # as if its process had died right after COMMIT
        age(store, conf.get().notify_grace / 1000)

    def check(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        assert max(messages(namespace).values(), default=0) <= 1
        sweep(alias)
        assert max(messages(namespace).values(), default=0) <= 1
        age(store, conf.get().notify_grace / 1000)
        sweep(alias)
        for id in ids:  # who was asked to end has done so in the sweep, or does when its message comes
            handle = task.get(id, namespace=[namespace])
            assert id in messages(namespace) or handle.status == "cancelled"
            assert handle.run().status == ("cancelled" if id == "asked to end" else "completed")

    return kill_each(prepare, lambda namespace: sweep(alias), check)


def _die(ctx: object) -> None:
    CrashPoints(0).here("inside")


# -- cancel -----------------------------------------------------------------------------------------------------------


def _fail(ctx: object) -> None:
    raise ValueError


STANDINGS = ("failed", "interrupted", "parked")


def cancels_killed(alias: str, in_block: bool) -> list[str]:
    configure()
    standings = STANDINGS[:1] if in_block else STANDINGS  # the rest of its way is the same then
    return [point for standing in standings for point in cancel_killed(alias, standing, in_block)]


def cancel_killed(alias: str, standing: str, in_block: bool) -> list[str]:
    """Kill a cancel: either it was never asked, or the task ends without another step."""
    task = SCRIPTED[alias]
    before: dict[str, object] = {}

    def prepare(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        handle = task.start(START, task_id="t", namespace=[namespace])
        if standing == "failed":
            with suppress(ValueError):
                handle.run(app=Script(on={"begin": _fail}))
        elif standing == "interrupted":
            connections.close_all()
            die(lambda: handle.run(app=Script(on={"begin": _die})), "a step")
            age(store, LEASE)
        elif standing == "parked":
            Task.objects.using(alias).filter(pk=handle.record.id).update(claims=conf.get().max_claims)
            assert handle.run().reason == "crash_loop"
        before[namespace] = rows_of(store, "t")

    def work(namespace: str) -> None:
        if in_block:
            with transaction.atomic(alias):
                task.cancel("t", "enough", namespace=[namespace])
        else:
            task.cancel("t", "enough", namespace=[namespace])

    def check(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        record = task.get("t", namespace=[namespace]).record
        if not MailboxItem.objects.using(alias).filter(task_id=record.id).exists():
            assert rows_of(store, "t") == before[namespace]
            assert task.cancel("t", "enough", namespace=[namespace]).status == "cancelled"
            return
        age(store, 2)
        sweep(alias)
        drive_due(alias, bool)
        ended = task.get("t", namespace=[namespace])
        assert (ended.status, ended.reason.split(" (")[0], ended.state) == ("cancelled", "enough", START)
        assert MailboxItem.objects.using(alias).get(task_id=record.id).seq == 1

    return kill_each(prepare, work, check, f"{standing}-")


# -- signal -----------------------------------------------------------------------------------------------------------


def signals_killed(alias: str, in_block: bool) -> list[str]:
    """Kill who sends a signal: it is there or not, and sent again with its key it is received once."""
    configure()
    task = WIDE[alias]

    def prepare(namespace: str) -> None:
        handle = task.start(START, task_id="t", namespace=[namespace]).run()
        assert handle.waiting is not None and handle.waiting.name == "go"  # noqa: PT018

    def work(namespace: str) -> None:
        if in_block:
            with transaction.atomic(alias):
                task.signal("t", "go", key="once", namespace=[namespace])
        else:
            task.signal("t", "go", key="once", namespace=[namespace])

    def check(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        record = task.get("t", namespace=[namespace]).record
        mailbox = MailboxItem.objects.using(alias).filter(task_id=record.id)
        age(store, 2)
        sweep(alias)
        if mailbox.exists():
            assert task.run("t", namespace=[namespace]).status == "completed"
        else:
            work(namespace)
            assert task.run("t", namespace=[namespace]).status == "completed"
        assert [line.seq for line in mailbox.exclude(used_at=None)] == [1]

    return kill_each(prepare, work, check)


# -- the lease of a foreign engine ------------------------------------------------------------------------------------


def exclusive_killed(alias: str) -> list[str]:
    """Kill who saves twice under a lease: each save is there whole or not at all, and the next holder goes on."""
    configure()
    checkpoints = [replace(FOREIGN, state=f"save {number}" * 100, attempt_count=number) for number in (1, 2)]

    def work(namespace: str) -> None:
        durable = stores[alias].namespace(namespace).durable
        with durable.exclusive("t", lease=LEASE) as held:
            for checkpoint in checkpoints:
                durable.save("t", checkpoint)
            fences[namespace] = held.fence

    def check(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        rows = rows_of(store, "t")
        saved = store.durable.load("t")
        assert saved in [None, *checkpoints]
        assert len(rows["statestore_snapshot"]) == (0 if saved is None else saved.attempt_count)
        age(store, LEASE)
        with store.durable.exclusive("t", wait=0) as held:
            assert all(held.fence > fence for fence in fences.values())
            store.durable.save("t", FOREIGN)
        assert store.durable.load("t") == FOREIGN

    fences: dict[str, int] = {}
    return kill_each(lambda namespace: None, work, check)


# -- start ------------------------------------------------------------------------------------------------------------


def start_killed(alias: str) -> list[str]:
    """Kill a start that joins a transaction: the caller's row, the task and its state are there, or none of them."""
    configure()
    task = SCRIPTED[alias]

    def work(namespace: str) -> None:
        with transaction.atomic(alias):
            task.start(START, task_id="t", namespace=[namespace])
            Group.objects.using(alias).create(name=namespace)

    def check(namespace: str) -> None:
        store = stores[alias].namespace(namespace)
        rows = rows_of(store, "t")
        there = Group.objects.using(alias).filter(name=namespace).exists()
        assert len(rows["statestore_task"]) == len(rows["statestore_snapshot"]) == there
        if not there:
            work(namespace)
        assert task.run("t", namespace=[namespace]).status == "completed"

    return kill_each(lambda namespace: None, work, check)
