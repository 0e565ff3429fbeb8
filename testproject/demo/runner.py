"""The story of the demo: start a task, kill the worker in the middle of it, twice, and watch it come to its end."""

import time
from collections.abc import Callable
from pathlib import Path

from django.utils import timezone

from django_statestore.durable import TaskHandle
from django_statestore.models import Snapshot
from testproject.demo.claims import Kill, Save, check
from testproject.demo.durable_tasks import Reading, read_text
from testproject.demo.models import Report
from testproject.demo.processes import Process, Processes
from testproject.demo.timeline import Timeline

SECONDS = 50.0
"""How long the story may take in all."""

KILL_IN_TURN = 4

_TICK = 0.05


class Failed(Exception):
    """The story took another turn; the text says which."""


class Story:
    """Tell it once. ``interrupted`` is asked all the time: it raises to end the story."""

    def __init__(self, path: Path, processes: Processes, timeline: Timeline, interrupted: Callable[[], None]) -> None:
        self._path, self._processes, self._timeline, self._interrupted = path, processes, timeline, interrupted
        self._saves: list[Save] = []
        self._kills: list[Kill] = []
        self._seen = self._attempts = 0
        self._workers: dict[str, str] = {}
        self._task: TaskHandle[Reading]

    def tell(self) -> tuple[TaskHandle[Reading], list[tuple[str, bool]]]:
        """Return the finished task, and each claim with whether it holds; ``Failed`` where it did not get so far."""
        self._timeline.restart()
        self._task = read_text.start(Reading(str(self._path)), task_id=f"demo-{timezone.now():%Y%m%d-%H%M%S}")
        self._timeline.event(f"started the task {self._task.id}, and sent its message")
        worker, beat = self._processes.worker(), self._processes.beat()
        self._timeline.event(f"started {worker} and {beat}")
        self._timeline.columns()
        self._until(self._in_the_middle, "came to the middle of its sections")
        worker = self._replace(worker, "read_section")
        self._until(self._recorded_but_not_saved, "recorded its report")
        self._replace(worker, "record_report")
        self._until(lambda: self._task.record.finished, "ended")
        self._show()
        self._timeline.event(f"the task is {self._task.status}")
        self._processes.kill()
        return self._task, list(check(self._task, self._saves, self._kills, self._processes))

    # -- when to kill -------------------------------------------------------------------------------------------------

    def _in_the_middle(self) -> bool:
        """Return whether a turn has been going on for a while: then the worker is inside the step's function."""
        record, state = self._task.record, self._task.state
        if self._task.step != "read_section" or record.status != "running":
            return False
        if record.turn < min(KILL_IN_TURN, len(state.sections)):
            return False
        time.sleep(0.3)
        return True

    def _recorded_but_not_saved(self) -> bool:
        """Return whether the effect of the last step has happened, but its worker has not saved that."""
        open_step = self._task.record.status == "running" and self._task.step == "record_report"
        return open_step and Report.objects.filter(task_id=self._task.id).exists()

    # -- kill and replace ---------------------------------------------------------------------------------------------

    def _replace(self, worker: Process, step: str) -> Process:
        """Kill the worker, start another, and wait until that has the task."""
        worker.kill()
        killed_at = self._timeline.now
        self._read()
        self._show()
        record, fence = self._task.record, self._task.record.fence
        if record.status != "running" or self._task.step != step:
            raise Failed(f"{worker} had left the step {step!r} before it was killed")
        self._kills.append(Kill(step, record.turn))
        lease = (record.wake_at - record.now).total_seconds() if record.wake_at else 0
        self._timeline.event(f"killed {worker} inside step {step!r}, turn {record.turn} (SIGKILL)", bad=True)
        another = self._processes.worker()
        self._timeline.event(f"started {another}; the lease of {worker.pid} has {lease:.1f} s to go")
        self._until(lambda: self._task.record.fence != fence, "was resumed")
        waited = self._timeline.now - killed_at
        self._timeline.event(f"the sweep sent the task to {another} after {waited:.1f} s; {self._what_now(step)}")
        return another

    def _what_now(self, step: str) -> str:
        if step == "record_report":
            return "it asks if the report is there"
        return f"turn {self._task.record.turn} is entered again"

    # -- look ---------------------------------------------------------------------------------------------------------

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        while True:
            self._read()
            if condition():
                return
            self._show()
            if (died := self._processes.died) is not None:
                raise Failed(f"{died} ended by itself, with status {died.status}")
            if self._task.parked or self._task.status == "cancelled":
                raise Failed(f"the task is {self._task.reason}")
            if self._timeline.now > SECONDS:
                raise Failed(f"within {SECONDS:.0f} seconds the task never {what}")
            self._interrupted()
            time.sleep(_TICK)

    def _read(self) -> None:
        self._task = self._task.refresh()

    def _show(self) -> None:
        """Print what was saved since the last time."""
        saves = list(
            Snapshot.objects.filter(task_id=self._task.record.id, save_seq__gt=self._seen)
            .defer("state")
            .order_by("save_seq")
        )
        if saves:
            self._read()  # the progress that was saved with them
        record = self._task.record
        for save in saves:
            attempt, self._attempts, self._seen = save.attempts - self._attempts, save.attempts, save.save_seq
            at = (save.saved_at - record.created_at).total_seconds()
            self._saves.append(Save(save.step, save.turn, attempt, save.outcome))
            self._timeline.step(
                at, self._worker(save.worker), save.step, save.turn, attempt, save.outcome, record.progress
            )
        if record.leased and self._task.step:
            self._timeline.moving(
                self._worker(record.worker), self._task.step, record.turn, self._task.attempt,
                record.progress, record.progress_text,
            )  # fmt: skip

    def _worker(self, name: str) -> str:
        """Return the pid of the Celery worker whose process has that name in the task's row."""
        if name not in self._workers:
            pid = name.split(":")[1]
            process = self._processes.by_pid(int(pid))
            self._workers[name] = str(process.pid) if process else pid
        return self._workers[name]
