"""What the demo claims, each checked against the database and the text itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from django_statestore.durable import TaskHandle
from testproject.demo.durable_tasks import Reading
from testproject.demo.models import Report
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


def check(
    task: TaskHandle[Reading], saves: Sequence[Save], kills: Sequence[Kill], processes: Processes
) -> Iterator[tuple[str, bool]]:
    """Yield each claim, and whether it holds."""
    state = task.state
    yield f"the task is completed, though {len(kills)} workers were killed", task.status == "completed" and bool(kills)
    numbers = [finding.number for finding in state.findings]
    yield f"no section is lost: {len(set(numbers))} of {len(state.sections)}", set(numbers) == _all(state.sections)
    yield "no section is recorded twice", len(numbers) == len(set(numbers)) > 0
    counted, words = sum(finding.words for finding in state.findings), len(words_of(_lines(state.path)))
    yield f"their {counted:,} words are the {words:,} of the text, counted anew", counted == words
    reports = list(Report.objects.filter(task_id=task.id))
    once = [report.pk for report in reports] == [state.report] and reports[0].body == state.body
    yield f"the report is recorded exactly once: {len(reports)} row for this task", once
    yield from _attempts(task, saves, kills)
    left = [str(process) for process in processes.all if group_is_left(process.pid)]
    yield f"no process is left{': ' if left else ''}{', '.join(left)}", not left


def _attempts(task: TaskHandle[Reading], saves: Sequence[Save], kills: Sequence[Kill]) -> Iterator[tuple[str, bool]]:
    spent, saved = task.checkpoint.attempt_count, task.record.save_seq
    in_safe = [kill for kill in kills if kill.step == "read_section"]
    counted = spent == saved + len(in_safe) and len(saves) == saved
    yield f"every attempt is counted: {spent} for {saved} saves, the killed one among them", counted
    for kill in kills:
        save = next((save for save in saves if (save.step, save.turn) == (kill.step, kill.turn)), None)
        if save is not None and kill in in_safe:
            yield f"turn {kill.turn} of {kill.step} was saved by attempt {save.attempt}", save.attempt == 2
        elif save is not None:
            yield f"{kill.step} was {save.outcome}, not run again", (save.outcome, save.attempt) == ("reconciled", 1)
        else:
            yield f"{kill.step}, turn {kill.turn}, was saved after the kill", False


def _all(sections: Sequence[object]) -> set[int]:
    return set(range(1, len(sections) + 1))


def _lines(path: str) -> list[str]:
    return Path(path).read_bytes().decode("utf-8-sig", "replace").split("\n")
