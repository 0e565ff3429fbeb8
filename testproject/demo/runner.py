"""The story of the demo: start a task, kill its worker three times, have it approved, and watch it come to its end."""

import time
from collections.abc import Callable
from pathlib import Path

from django.utils import timezone

from django_statestore.durable import TaskHandle
from django_statestore.models import Snapshot
from testproject.demo.approval import Approver
from testproject.demo.claims import Kill, Pause, Save, check
from testproject.demo.durable_tasks import APPROVAL_SECONDS, Reading, read_text
from testproject.demo.models import Booking, Report
from testproject.demo.processes import Process, Processes
from testproject.demo.timeline import Timeline

SECONDS = 55.0
"""How long the story may take in all, without the wait for an answer."""

KILL_IN_TURN = 4

_TICK = 0.05


class Failed(Exception):
    """The story took another turn; the text says which."""


class Story:
    """Tell it once. ``interrupted`` is asked all the time: it raises to end the story."""

    def __init__(
        self,
        path: Path,
        processes: Processes,
        timeline: Timeline,
        approver: Approver,
        interrupted: Callable[[], None],
    ) -> None:
        self._path, self._processes, self._timeline = path, processes, timeline
        self._approver, self._interrupted = approver, interrupted
        self._limit = SECONDS
        self._pause = Pause()
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
        self._until(lambda: self._task.waiting is not None, "came to wait for an answer")
        self._let_wait()
        self._until(lambda: self._rejected or self._booked_but_not_saved(), "booked its report")
        if not self._rejected:
            worker = self._replace(worker, "book_report")
            self._until(self._recorded_but_not_saved, "recorded its report")
            self._replace(worker, "record_report")
        self._until(lambda: self._task.record.finished, "ended")
        self._show()
        reason = f": {self._task.reason}" if self._task.reason else ""
        self._timeline.event(f"the task is {self._task.status}{reason}")
        self._linger()
        self._processes.kill()
        return self._task, list(check(self._task, self._saves, self._kills, self._pause, self._processes))

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

    def _booked_but_not_saved(self) -> bool:
        """Return whether the atomic step has been going on for a while: then its rows are written, not committed."""
        if self._task.record.status != "running" or self._task.step != "book_report":
            return False
        time.sleep(0.4)
        return True

    def _recorded_but_not_saved(self) -> bool:
        """Return whether the effect of the last step has happened, but its worker has not saved that."""
        open_step = self._task.record.status == "running" and self._task.step == "record_report"
        return open_step and Report.objects.filter(task_id=self._task.id).exists()

    # -- wait for an answer -------------------------------------------------------------------------------------------

    def _let_wait(self) -> None:
        """Look at the waiting task until somebody has answered and a worker takes it up again."""
        self._show()
        wait, fence, began = self._task.waiting, self._task.record.fence, self._timeline.now
        until = f" until {wait.until.astimezone():%H:%M:%S}" if wait and wait.until else ""
        self._timeline.event(f"the task waits for the signal 'approval'{until}; no worker holds it")
        self._approver.ask(self._task)
        while self._task.waiting is not None:
            record, now = self._task.record, self._timeline.now
            if record.worker or record.leased or record.fence != fence:
                self._pause.held = True
            self._pause.looks, self._pause.seconds = self._pause.looks + 1, now - began
            self._approver.tick(now - began)
            self._keep_going()
            if now - began > self._approver.patience:
                raise Failed(f"{self._approver.patience:.0f} seconds after it was asked the task still waits")
            time.sleep(_TICK)
            self._read()
        self._pause.ended = self._timeline.now
        self._limit += self._pause.ended - began
        for answer in (letter for letter in self._task.letters() if letter.kind == "signal"):
            self._pause.senders.append(answer.sender)
            self._timeline.event(f"{answer.sender} has answered; a worker takes the task up again")

    def _linger(self) -> None:
        left = self._pause.ended + self._approver.lingers - self._timeline.now
        if left > 0:
            self._timeline.event(f"the admin is served for {left:.0f} seconds more")
        while self._timeline.now < self._pause.ended + self._approver.lingers:
            self._keep_going()
            time.sleep(_TICK)

    @property
    def _rejected(self) -> bool:
        return self._task.status == "cancelled" and self._task.reason == "rejected"

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
        if step == "book_report" and Booking.objects.filter(task_id=self._task.id).exists():
            raise Failed(f"{worker} was killed inside the transaction, and yet the report is booked")
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
        if step == "book_report":
            return "nothing was booked, so it is entered again"
        return f"turn {self._task.record.turn} is entered again"

    # -- look ---------------------------------------------------------------------------------------------------------

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        while True:
            self._read()
            if condition():
                return
            self._show()
            self._keep_going()
            if self._task.reason == "unanswered":
                raise Failed(f"nobody answered within {APPROVAL_SECONDS / 60:.0f} minutes, so the task has ended")
            if self._task.parked or self._task.status == "cancelled":
                raise Failed(f"the task is {self._task.reason}")
            if self._timeline.now > self._limit:
                raise Failed(f"within {SECONDS:.0f} seconds the task never {what}")
            time.sleep(_TICK)

    def _keep_going(self) -> None:
        """Raise what ends the story: a process that died, or somebody who wants it to end."""
        if (died := self._processes.died) is not None:
            raise Failed(f"{died} ended by itself, with status {died.status}")
        self._interrupted()

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
