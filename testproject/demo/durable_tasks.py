"""The demo's durable task: read a text section by section, have the report approved, book it, and record it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db.models import F

from django_statestore.durable import DurableTask, Fail, NotDone, Repeat, StepContext, WaitFor
from testproject.demo.forms import ApprovalForm
from testproject.demo.models import Booking, Report
from testproject.demo.texts import Finding, Section, find_sections, look_into

SECTION_SECONDS = 0.6
"""How long a section takes, so that there is something to see, and to interrupt."""

APPROVAL_SECONDS = 300
"""How long the task waits for an answer."""

BOOK_SECONDS = 1.2
"""How long the transaction of the booking stays open. A worker that dies meanwhile has booked nothing."""

RECORD_SECONDS = 1.5
"""How long the answer takes that the report was recorded. A worker that dies meanwhile leaves the question open."""

_TICK = 0.1


@dataclass(frozen=True)
class Reading:
    """Be the state: what is known after each step."""

    path: str
    text: dict[str, Any] = field(default_factory=dict)
    """The ref of the spooled bytes."""
    sections: tuple[Section, ...] = ()
    findings: tuple[Finding, ...] = ()
    body: str = ""
    approved_by: str = ""
    report: int | None = None


read_text = DurableTask("demo.read_text", revision="2", state=Reading, deadline=timedelta(minutes=10))


@read_text.step(replay="safe")
def spool_text(state: Reading, ctx: StepContext) -> Reading:
    """Keep the bytes: from here on the task does not depend on the file."""
    with Path(state.path).open("rb") as file:
        reader = ctx.spool(file)
    return replace(state, text=reader.ref)


@read_text.step(replay="safe")
def cut_sections(state: Reading, ctx: StepContext) -> Reading:
    """Find the sections."""
    ctx.progress(0.05, "sections found")
    return replace(state, sections=find_sections(ctx.store.spool.open(state.text).lines()))


@read_text.step(replay="safe")
def read_section(state: Reading, ctx: StepContext) -> Reading | Repeat[Reading]:
    """Read one section, and come back for the next; each turn is saved."""
    number = len(state.findings)
    section = state.sections[number]
    finding = look_into(section, number + 1, ctx.store.spool.open(state.text).lines(section.start, section.stop))
    for seconds in _ticks(SECTION_SECONDS):
        ctx.progress(0.05 + 0.83 * (number + seconds / SECTION_SECONDS) / len(state.sections), section.title)
    state = replace(state, findings=(*state.findings, finding))
    return state if len(state.findings) == len(state.sections) else Repeat(state)


@read_text.step(replay="safe")
def build_report(state: Reading, ctx: StepContext) -> WaitFor[Reading]:
    """Write the report down, and have it approved; nobody and nothing is held up by the wait."""
    ctx.progress(0.9, "report built")
    lines = [
        f"{finding.number:2}  {finding.words:6,} words  {finding.title}"
        + (f"  ({', '.join(finding.frequent)})" if finding.frequent else "")
        for finding in state.findings
    ]
    state = replace(state, body="\n".join(lines))
    return WaitFor(state, "approval", timeout=APPROVAL_SECONDS, form=ApprovalForm, permission="demo.add_report")


@read_text.step(replay="safe")
def hear_answer(state: Reading, ctx: StepContext) -> Reading | Fail:
    """Go on if the report was approved."""
    answer = ctx.received
    if answer is None:
        return Fail("unanswered")
    if answer.payload["decision"] != "approve":
        return Fail("rejected")
    return replace(state, approved_by=answer.sender)


@read_text.step(replay="atomic")
def book_report(state: Reading, ctx: StepContext) -> Reading:
    """Count the report up in the books, in the transaction that saves the step too: a double would show."""
    words = sum(finding.words for finding in state.findings)
    booking, _ = Booking.objects.get_or_create(task_id=ctx.task_id)
    Booking.objects.filter(pk=booking.pk).update(reports=F("reports") + 1, words=F("words") + words)
    for _tick in _ticks(BOOK_SECONDS):
        ctx.check()
    ctx.progress(0.93, "report booked")
    return state


@read_text.step(replay="reconcile")
def record_report(state: Reading, ctx: StepContext) -> Reading:
    """Record the report, as if with somebody else's service: it must not happen twice."""
    report = Report.objects.create(
        task_id=ctx.task_id,
        source=state.path,
        sections=len(state.findings),
        words=sum(finding.words for finding in state.findings),
        body=state.body,
    )
    for seconds in _ticks(RECORD_SECONDS):
        ctx.progress(0.93 + 0.06 * seconds / RECORD_SECONDS, "report recorded, waiting for the answer")
    ctx.progress(1, "done")
    return replace(state, report=report.pk)


@record_report.reconcile
def find_report(state: Reading, ctx: StepContext) -> Any:
    """Ask whether an interrupted ``record_report`` took effect."""
    report = Report.objects.filter(task_id=ctx.task_id).first()
    if report is None:
        return NotDone
    ctx.progress(1, "done")
    return replace(state, report=report.pk)


def _ticks(seconds: float) -> Iterator[float]:
    """Let so many seconds pass, and say after each tick how many have."""
    for tick in range(1, round(seconds / _TICK) + 1):
        time.sleep(_TICK)
        yield tick * _TICK
