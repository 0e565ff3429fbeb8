"""What the demo claims, each checked against the database and the text itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from django_statestore.durable import TaskHandle
from testproject.demo.durable_tasks import Reading
from testproject.demo.models import Booking, Report
from testproject.demo.processes import Processes, group_is_left
from testproject.demo.texts import words_of


@dataclass(frozen=True)
class Save:
    """One saved step, as the timeline showed it."""

    step: str
    turn: int
    attempt: int
    outcome: str


@dataclass(frozen=True)
class Kill:
    """The step that a worker was in when it was killed."""

    step: str
    turn: int


@dataclass
class Pause:
    """What was seen of the wait for an answer."""

    looks: int = 0
    seconds: float = 0.0
    ended: float = 0.0
    """When, in seconds since the story began."""
    held: bool = False
    """Whether a worker had the task meanwhile."""
    senders: list[str] = field(default_factory=list)


def check(
    task: TaskHandle[Reading], saves: Sequence[Save], kills: Sequence[Kill], pause: Pause, processes: Processes
) -> Iterator[tuple[str, bool]]:
    """Yield each claim, and whether it holds."""
    if task.status == "cancelled":
        yield from _rejected(task, pause)
    else:
        yield from _completed(task, kills, pause)
    yield from _attempts(task, saves, kills)
    waited = f"no worker held the task while it waited: {pause.looks} looks in {pause.seconds:.1f} s"
    yield waited, pause.looks > 0 and not pause.held
    left = [str(process) for process in processes.all if group_is_left(process.pid)]
    yield f"no process is left{': ' if left else ''}{', '.join(left)}", not left


def _completed(task: TaskHandle[Reading], kills: Sequence[Kill], pause: Pause) -> Iterator[tuple[str, bool]]:
    state = task.state
    yield f"the task is completed, though {len(kills)} workers were killed", task.status == "completed" and bool(kills)
    numbers = [finding.number for finding in state.findings]
    yield f"no section is lost: {len(set(numbers))} of {len(state.sections)}", set(numbers) == _all(state.sections)
    yield "no section is recorded twice", len(numbers) == len(set(numbers)) > 0
    counted, words = sum(finding.words for finding in state.findings), len(words_of(_lines(state.path)))
    yield f"their {counted:,} words are the {words:,} of the text, counted anew", counted == words
    yield f"the report was approved once, by {state.approved_by}", pause.senders == [state.approved_by]
    booked = list(Booking.objects.filter(task_id=task.id).values_list("reports", "words"))
    yield f"it is booked exactly once, with {counted:,} words", booked == [(1, counted)]
    reports = list(Report.objects.filter(task_id=task.id))
    once = [report.pk for report in reports] == [state.report] and reports[0].body == state.body
    yield f"it is recorded exactly once: {len(reports)} row for this task", once


def _rejected(task: TaskHandle[Reading], pause: Pause) -> Iterator[tuple[str, bool]]:
    yield "the task is cancelled, because the report was rejected", task.reason == "rejected"
    yield f"one answer was given, by {', '.join(pause.senders)}", len(pause.senders) == 1
    yield "nothing is booked", not Booking.objects.filter(task_id=task.id).exists()
    yield "nothing is recorded", not Report.objects.filter(task_id=task.id).exists()


def _attempts(task: TaskHandle[Reading], saves: Sequence[Save], kills: Sequence[Kill]) -> Iterator[tuple[str, bool]]:
    spent, saved = task.checkpoint.attempt_count, task.record.save_seq
    again = [kill for kill in kills if kill.step != "record_report"]
    counted = spent == saved + len(again) and len(saves) == saved
    yield f"every attempt is counted: {spent}, {len(again)} of them killed, for {saved} saves", counted
    for kill in kills:
        save = next((save for save in saves if (save.step, save.turn) == (kill.step, kill.turn)), None)
        if save is not None and kill in again:
            yield f"turn {kill.turn} of {kill.step} was saved by attempt {save.attempt}", save.attempt == 2
        elif save is not None:
            yield f"{kill.step} was {save.outcome}, not run again", (save.outcome, save.attempt) == ("reconciled", 1)
        else:
            yield f"{kill.step}, turn {kill.turn}, was saved after the kill", False


def _all(sections: Sequence[object]) -> set[int]:
    return set(range(1, len(sections) + 1))


def _lines(path: str) -> list[str]:
    return Path(path).read_bytes().decode("utf-8-sig", "replace").split("\n")
