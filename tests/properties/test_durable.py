"""Durable tasks against a plain description of the rules: workers that stop anywhere, and whatever else may come.

A worker is stopped after any of its actions and goes on later, if it does; by then another may have taken over, time
have passed, or somebody have asked something of the task. What each write must do is known before it is made.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from django_statestore.contracts.position import Position
from django_statestore.contracts.tasks import Renewal
from django_statestore.durable import DurableTask
from django_statestore.durable.registry import unregister
from django_statestore.durable.task import engine_of
from django_statestore.exceptions import (
    InvalidArgument,
    RepairRefused,
    SnapshotGone,
    TaskBusy,
    TaskExists,
    TaskFinished,
    TaskNotFound,
)
from django_statestore.keys import encode_namespace
from django_statestore.services.sweep import Swept, sweep
from django_statestore.testing import age
from tests.aliases import DATABASES
from tests.durable.rows import Rows, rows_of

from .durable_model import DEADLINE, LEASE, MAX_CLAIMS, RETENTION, RING, Clock, Step, TaskModel
from .durable_outcomes import SIGNALS, outcome_by
from .durable_stale import ms, stale_writes
from .durable_work import STEPS, Worker, define
from .grounds import DatabaseGround, Ground, ServerGround
from .machine import SLOW, check

tasks = st.sampled_from([0, 0, 0, 1, 2])
"""Which task, counted from the newest, those that have ended last."""
ids = st.sampled_from(["new", "new", "known", "ended"])
recent = st.sampled_from([1, 1, 1, 2, 2, 3, 5])
delays = st.sampled_from([1.5, 2.5, 10.5])
GRACE = 5.5

often = st.sampled_from([True, True, True, False])
grants = st.sampled_from([(1, 0, None), (2, 0, None), (2, 3, None), (0, 2, None), (0, 0, 20.5), (1, 0, 300.5)])
repairs = st.sampled_from(["cancel", "grant", "grant", "retry_now", "mark_done", "mark_not_done"])
pauses = st.none() | st.integers(1, 20)


has_workers = precondition(lambda machine: bool(machine.workers))
has_tasks = precondition(lambda machine: bool(machine.models))
has_positions = precondition(lambda machine: bool(machine.positions))


class DurableMachine(RuleBasedStateMachine):
    ground: ClassVar[Ground]
    task: ClassVar[DurableTask[int]]
    steps: ClassVar[list[Step]]

    def __init__(self) -> None:
        super().__init__()
        self.store = self.ground.begin()
        self.engine = engine_of(self.store)
        self.rows: Rows = rows_of(self.store)
        self.clock = Clock()
        self.models: dict[str, TaskModel] = {}
        self.origins: dict[str, object] = {}
        self.fences: dict[str, int] = {}
        self.workers: list[Worker] = []
        self.positions: list[Position] = []
        self.leases: list[tuple[str, str, int]] = []
        self._serial = 0
        self._all = False

    @property
    def open(self) -> list[TaskModel]:
        """Return what may change; of what has ended nothing does, and once is enough to look at it."""
        return [*self.models.values()] if self._all else [each for each in self.models.values() if not each.finished]

    def teardown(self) -> None:
        for worker in self.workers:
            worker.die()
        self.ground.end()

    # -- helpers ------------------------------------------------------------------------------------------------------

    def next_value(self) -> int:
        self._serial += 1
        return self._serial

    def at(self, row: int) -> TaskModel | None:
        return next((model for model in self.models.values() if model.row == row), None)

    def note(self, position: Position) -> None:
        """Remember a position that a worker has, or had."""
        self.positions.append(position)

    def key_of(self, model: TaskModel) -> str:
        return next(key for key, each in self.models.items() if each is model)

    def expecting(self, error: type[Exception] | None, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if error is None:
            return operation(*args, **kwargs)
        with pytest.raises(error):
            operation(*args, **kwargs)
        return None

    def add(self, key: str, model: TaskModel, origin: object) -> None:
        record = self.record(key)
        model.row = record.id
        self.models[key], self.origins[key] = model, origin
        self.compare(model)

    def record(self, key: str) -> Any:
        record = self.engine.task_read(self.store.durable.entry(key)).run()
        assert record is not None
        return record

    def compare(self, model: TaskModel) -> None:
        """Compare the row of a task with what it must be."""
        key = self.key_of(model)
        row = self.record(key)
        model.see(row.fence)
        if model.holder:  # also when the id was another task's before
            assert row.fence >= self.fences.get(key, 0), "the fence fell"
            self.fences[key] = row.fence
        assert row.signal_seq >= model.signals
        model.signals = row.signal_seq
        found = {
            "status": row.status,
            "reason": row.reason,
            "index": row.step_index,
            "turn": row.turn,
            "attempts": row.attempts,
            "saved_attempts": row.saved_attempts,
            "max_attempts": row.max_attempts,
            "reserved": row.reserved_calls,
            "max_calls": row.max_calls,
            "claims": model.claims if model.finished else row.claims,
            "save": row.save_seq,
            "state": self.task.plain(row.state),
            "waiting": row.waiting_for,
            "cancel": row.cancel_requested,
        }
        assert found == {name: getattr(model, name) for name in found}
        assert bool(row.worker) is bool(model.holder)
        assert row.attempts >= model.entries
        assert (row.received is not None) is (model.received is not None)
        assert self.close(row.deadline, model.deadline, row.now)
        if not model.finished and model.resume is not None and not model.timed_out:
            assert self.close(row.resume_at, model.resume, row.now), "a sleep or back-off has another end"
        if model.held:
            assert self.close(row.wake_at, model.lease_end, row.now), "a lease has another end"
        if not model.holder and model.due is False:
            assert (row.wake_at is None) is (model.finished or model.parked)

    def close(self, instant: datetime | None, minutes: float, now: datetime) -> bool:
        assert instant is not None
        left = (instant - now).total_seconds()
        return -SLOW < left - (minutes - self.clock.now) * 60 < SLOW

    # -- workers ------------------------------------------------------------------------------------------------------

    @initialize(chance=st.randoms(use_true_random=False))
    def start_one(self, chance: Random) -> None:
        self._chance = chance
        self._start("task 0", self.next_value())

    @rule(id=ids, at=st.none() | delays, deadline=st.sampled_from([None, None, 20.5]), again=st.booleans())
    def start(self, id: str, at: float | None, deadline: float | None, again: bool) -> None:
        key = self.id(id)
        known = self.models.get(key)
        self._start(key, known.saves[0].state if known and again else self.next_value(), at, deadline)

    def id(self, id: str) -> str:
        """Return an id for a new task, which may be another's."""
        ended = [key for key, model in self.models.items() if model.finished]
        known = {"ended": ended, "known": [*self.models]}.get(id)
        return known[-1] if known else f"task {self.next_value()}"

    def target(self, task: int) -> str:
        """Return the id of a task, which has mostly been driven a bit, so that there is something to happen to."""
        living = [key for key, model in self.models.items() if not model.finished]
        if not living:
            self._start(f"task {self.next_value()}", self.next_value())
        ordered = sorted(self.models, key=lambda key: (self.models[key].finished, -self.models[key].row))
        key = ordered[min(task, len(ordered) - 1)]
        if self._chance.choice([True, True, False]):
            self._work(key, True, self._chance.choice([None, self._chance.randint(1, 20)]))
        return key

    def _start(self, key: str, state: int, at: float | None = None, deadline: float | None = None) -> None:
        when = None if at is None else datetime.now(UTC) + timedelta(minutes=at)
        seconds = None if deadline is None else deadline * 60
        error = TaskExists if self.origins.get(key, ("start", state)) != ("start", state) else None
        self.expecting(
            error, self.task.start, state, task_id=key, namespace=self.store.names, at=when, deadline=seconds
        )
        if key not in self.models:
            ends = self.clock.now + (deadline or DEADLINE)
            resume = None if at is None else self.clock.now + at
            self.add(key, TaskModel(self.clock, self.steps, state, ends, resume), ("start", state))

    @rule(task=tasks, patient=often, pause=pauses)
    def work(self, task: int, patient: bool, pause: int | None) -> None:
        self._work(self.target(task), patient, pause)

    @rule(task=tasks, pause=st.integers(3, 12), meanwhile=pauses)
    def overtake(self, task: int, pause: int, meanwhile: int | None) -> None:
        """Stop a worker somewhere in a step, let another take over, and let the first go on."""
        key = self.target(task)
        self._work(key, True, pause)
        first = self.workers[-1:]
        self._work(key, True, meanwhile)
        for worker in first:
            if worker.key == key and not worker.over:
                self._go(worker, None)

    def _work(self, key: str, patient: bool, pause: int | None) -> None:
        model = self.models[key]
        if patient and not model.finished:
            self.wait_for(model)
        script = [outcome_by(self._chance) for _ in range(self._chance.choice([1, 2, 3, 5]))]
        note(f"# a worker of {key!r} drives, {'to its end' if pause is None else f'{pause} actions'}: {script}")
        for did in script:
            did.state = self.next_value()
        worker = Worker(self, key, script)
        self.workers.append(worker)
        self._go(worker, pause)

    def wait_for(self, model: TaskModel) -> None:
        """Let time pass until a worker finds something to do, where time is what it takes."""
        until = model.lease_end if model.held else model.resume
        if until is not None and until > self.clock.now:
            self.pass_time(math.ceil(until - self.clock.now))

    @has_workers
    @rule(which=recent, pause=pauses)
    def go_on(self, which: int, pause: int | None) -> None:
        self._go(self.workers[-min(which, len(self.workers))], pause)

    def _go(self, worker: Worker, pause: int | None) -> None:
        worker.go(pause)
        self.workers = [each for each in self.workers if not each.over]

    @rule(minutes=st.sampled_from([*[1, 1, 2, 3, 5, 5, 12] * 3, 50, 241, 310]))
    def pass_time(self, minutes: int) -> None:
        note(f"# {minutes} minutes later")
        age(self.store, minutes * 60)
        self.clock.now += minutes

    @has_positions
    @rule(which=recent)
    def renew(self, which: int) -> None:
        position = self.position(which)
        model = self.at(position.task)
        held = model is not None and model.renew(position.fence)
        [renewed] = self.engine.task_renew([Renewal(position.task, position.fence, ms(LEASE), None, None)]).run()
        assert renewed.held is held
        if held and model is not None:
            assert renewed.cancel_requested == model.cancel

    @has_positions
    @rule(which=recent, back=st.sampled_from([0, 0, 1]), how=st.integers(0, 11))
    def write_by_a_stale_worker(self, which: int, back: int, how: int) -> None:
        position = self.position(which)
        model = self.at(position.task)
        position = Position(position.task, position.fence, position.save_seq - back)
        if model is not None and (position.fence, position.save_seq) == model.at:
            return
        before = self.everything(model)
        answer = stale_writes(self.engine, position)[how]()
        assert not answer, f"stale write {how} was answered with {answer!r}"
        assert self.everything(model) == before

    def position(self, which: int) -> Position:
        self.target(0)
        return self.positions[-min(which, len(self.positions))]

    def everything(self, model: TaskModel | None) -> object:
        if model is None:
            return None
        lines = self.engine.task_lines(model.row, 0, 1000).run()
        letters = self.engine.task_letters(model.row).run()
        return self.rows.everything(self.key_of(model)), lines, letters

    # -- what is asked of a task --------------------------------------------------------------------------------------

    def gone_or_ended(self, model: TaskModel | None) -> type[Exception] | None:
        return TaskNotFound if model is None else TaskFinished if model.finished else None

    @rule(task=tasks, name=st.sampled_from(SIGNALS), dedup=st.sampled_from([None, None, "k", "l"]))
    def signal(self, task: int, name: str, dedup: str | None) -> None:
        key = self.target(task) if self._chance.random() < 0.95 else "nobody"
        model, payload = self.models.get(key), self.next_value()
        error = self.gone_or_ended(model)
        names = self.store.names
        self.expecting(error, self.task.signal, key, name, payload, key=dedup, namespace=names)
        if error is None and model is not None:
            model.signal(name, payload, dedup)
            self.compare(model)

    @rule(
        task=tasks,
        how=st.sampled_from(["cancel", "grant", "grant", "retry_now", "mark_done", "mark_not_done"]),
        much=grants,
    )
    def repair(self, task: int, how: str, much: tuple[int, int, float | None]) -> None:
        key = self.target(task)
        if how == "cancel":
            self._cancel(key)
        elif how == "grant":
            self._grant(key, *much)
        else:
            self._repair(key, how)

    def _cancel(self, key: str) -> None:
        model = self.models.get(key)
        error = self.gone_or_ended(model)
        reason = f"reason {self.next_value()}"
        self.expecting(error, self.task.cancel, key, reason, namespace=self.store.names)
        if error is None and model is not None:
            model.ask_to_end(reason)
            self.compare(model)

    def _grant(self, key: str, attempts: int, calls: int, deadline: float | None) -> None:
        model = self.models[key]
        handle = self.task.get(key, namespace=self.store.names)
        seconds = None if deadline is None else deadline * 60
        self.expecting(self.gone_or_ended(model), handle.grant, attempts=attempts, model_calls=calls, deadline=seconds)
        if not model.finished:
            model.grant(attempts, calls, deadline)
            self.compare(model)

    def _repair(self, key: str, how: str) -> None:
        model = self.models[key]
        handle = self.task.get(key, namespace=self.store.names)
        state = [self.next_value()] if how == "mark_done" else []
        refused = getattr(model, how)(*state)
        errors = {"": None, "TaskFinished": TaskFinished, "TaskBusy": TaskBusy, "RepairRefused": RepairRefused}
        self.expecting(errors[refused], getattr(handle, how), *state)
        self.compare(model)

    @has_tasks
    @rule(task=tasks, id=ids, index=st.none() | st.integers(0, 3), gives=st.booleans())
    def fork(self, task: int, id: str, index: int | None, gives: bool) -> None:
        source, key = self.target(task), self.id(id)
        model = self.models[source]
        given = self.next_value() if gives else None
        step = None if index is None else self.steps[index].name
        origin = ("fork", model.row, index, given)
        handle = self.task.get(source, namespace=self.store.names)
        made: TaskModel | None = None
        error: type[Exception] | None = None
        if key in self.models:
            error = None if self.origins[key] == origin else TaskExists
        elif index is None and model.at_end:
            error = InvalidArgument
        else:
            made = model.fork(index, given)
            error = None if made else SnapshotGone
        options = {} if given is None else {"state": given}
        self.expecting(error, handle.fork, from_step=step, task_id=key, **options)
        if made is not None:
            self.add(key, made, origin)

    @rule(task=tasks, lease=delays, which=recent, back=st.booleans())
    def take_or_give_back_as_a_foreign_engine(self, task: int, lease: float, which: int, back: bool) -> None:
        key = self.target(task)
        if back and self.leases:
            self._give_back(*self.leases[-min(which, len(self.leases))])
        else:
            self._take(key, lease)

    def _take(self, key: str, lease: float) -> None:
        claim, model = self.store.durable.claim(key, lease * 60), self.models[key]
        assert (claim is not None) is model.take(lease)
        self.compare(model)
        if claim is not None:
            assert claim.fence == model.fence
            self.leases.append((key, claim.token, claim.fence))

    def _give_back(self, key: str, token: str, fence: int) -> None:
        model = self.models.get(key)
        given = model is not None and model.give_back(fence)
        assert self.store.durable.release(key, token) is given
        if model is not None:
            self.compare(model)

    # -- the sweep and the purge --------------------------------------------------------------------------------------

    @rule(how=st.sampled_from(["notify", "notify", "sweep", "purge", "look"]))
    def maintain(self, how: str) -> None:
        self._all = how == "look"
        if how == "notify":
            self._notify()
        elif how == "purge":
            self._purge()
        elif how == "sweep":
            assert sweep(self.ground.name) == Swept()

    def _notify(self) -> None:
        found = self.ours(self.engine.tasks_notify([self.task.fingerprint], ms(GRACE), 1000).run())
        for key, model in self.models.items():
            trusts = model.notified is not None and model.notified > self.clock.now
            if not model.loose and model.due is not None:
                assert (key in found) is (model.due and not trusts), key
            assert model.due is not False or key not in found, key
            if key in found:
                model.notified, model.loose = self.clock.now + GRACE, False

    def _purge(self) -> None:
        while self.engine.tasks_purge(ms(RETENTION), 2).run():
            pass
        for key in [key for key, model in self.models.items() if model.purged()]:
            note(f"# {key} is purged")
            del self.models[key], self.origins[key]
            assert self.engine.task_read(self.store.durable.entry(key)).run() is None

    # -- what always holds --------------------------------------------------------------------------------------------

    def ours(self, due: list[Any]) -> set[str]:
        namespace = encode_namespace(self.store.names)
        return {task.key for task in due if task.namespace == namespace}

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        self.every_task_is_as_it_must_be()
        self.a_task_is_due_where_a_worker_must_look_at_it_and_nowhere_else()
        self.no_signal_is_lost_or_received_twice()
        self.no_save_is_lost()
        self._all = False

    def every_task_is_as_it_must_be(self) -> None:
        for model in self.open:
            self.compare(model)
        assert self.rows.ids() == sorted(self.models)

    def a_task_is_due_where_a_worker_must_look_at_it_and_nowhere_else(self) -> None:
        if self.models:
            due = self.ours(self.engine.tasks_due([self.task.fingerprint], 1000).run())
            for key, model in self.models.items():
                if model.due is not None:
                    assert (key in due) is model.due, f"{key} must {'' if model.due else 'not '}be due"

    def no_signal_is_lost_or_received_twice(self) -> None:
        for model in self.open:
            if model.mailbox:
                kept = [each for each in self.engine.task_letters(model.row).run() if each.kind == "signal"]
                found = [(letter.name, letter.used_at is not None, letter.dropped) for letter in kept]
                assert found == [(mail.name, mail.used, False) for mail in model.mailbox]

    def no_save_is_lost(self) -> None:
        for model in self.open:
            saves = self.engine.task_history(model.row).run()
            first = max(0, model.save - RING + 1)
            found = [(saved.save, saved.next_index) for saved in saves]
            assert found == [(save, model.saves[save].index) for save in range(first, model.save + 1)]
            for save in {first, model.save, max(first, model.save - 1)}:
                state = self.engine.task_saved(model.row, save).run()
                assert self.task.plain(state) == model.saves[save].state
            items = self.engine.task_items(model.row, "item").run()
            assert [self.task.plain(item) for item in items] == [value for _, value in model.items]


ALIASES = [*DATABASES, "memory"]


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize("alias", ALIASES, ids=lambda alias: "sqlite" if alias == "default" else alias)
def test_durable_tasks_agree_with_the_rules(alias: str, settings: Any) -> None:
    memory = {"BACKEND": "django_statestore.backends.memory.MemoryBackend"}
    settings.STATESTORES = {**settings.STATESTORES, "memory": memory}
    settings.STATESTORE = {"HINTS": False, "LEASE": LEASE * 60, "MAX_CLAIMS": MAX_CLAIMS}
    atomic = alias in DATABASES
    steps = [step if atomic or step.replay != "atomic" else Step(step.name, "safe", step.calls) for step in STEPS]
    ground = DatabaseGround(alias) if atomic else ServerGround(alias)
    task = define(f"test.{uuid.uuid4().hex[:8]}", alias, steps)
    try:
        check(type("DurableMachine", (DurableMachine,), {"task": task, "steps": steps}), ground)
    finally:
        unregister(task)
