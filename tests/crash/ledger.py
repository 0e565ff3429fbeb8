"""The world outside: an append-only file that no database rolls back and no killed process takes along.

What a process has written is the kernel's: SIGKILL loses none of it, so nothing is flushed to the disk.
"""

import functools
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from django_statestore.durable import StepContext
from django_statestore.testing import CrashPoints


@dataclass(frozen=True)
class Line:
    """What happened.

    A step was `entered`, has `received`, its `effect` took place, its reconcile was `asked`; a call was `called`, was
    `kept`, has `returned`; a state was `saved`, a signal `sent`.
    """

    what: str
    step: str
    turn: int
    detail: str
    pid: int


class Ledger:
    """The lines of one task, of all the processes that ever drove it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, what: str, step: str = "", turn: int = 0, detail: str = "") -> None:
        line = json.dumps([what, step, turn, detail, os.getpid()]) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, line.encode())  # one write of O_APPEND: lines of several processes never mix
        os.close(file)

    def lines(self, what: str = "") -> list[Line]:
        """Return the lines, or those of one kind."""
        text = self.path.read_text() if self.path.exists() else ""
        lines = [Line(*json.loads(line)) for line in text.splitlines()]
        return [line for line in lines if what in ("", line.what)]


def short(result: str) -> str:
    """Return what tells one result of a call from another."""
    return result[:100].rstrip(".")


@dataclass(frozen=True)
class Outside:
    """What a step finds as `ctx.app`: the ledger, and the points at which its process may be killed."""

    ledger: Ledger
    points: CrashPoints

    def enter(self, ctx: StepContext) -> None:
        self.ledger.write("entered", ctx.step, ctx.turn)
        self.points.here(f"inside {ctx.step}, turn {ctx.turn}: it has begun")

    def act(self, ctx: StepContext) -> None:
        """Do what must happen once a turn, and costs a model call."""
        ctx.spend_model_call()
        self.ledger.write("effect", ctx.step, ctx.turn)
        self.points.here(f"inside {ctx.step}, turn {ctx.turn}: its effect has happened")

    def call(self, ctx: StepContext, name: str, number: int, length: int = 0) -> str:
        """Make call `number` of that name with `ctx.call`; return its result, which no other call has."""
        result: str = ctx.call(name, functools.partial(self._make, ctx, name), number, length)
        self.ledger.write("returned", ctx.step, ctx.turn, short(result))
        self.points.here(f"inside {ctx.step}, turn {ctx.turn}: call {number} has returned")
        return short(result)

    def _make(self, ctx: StepContext, name: str, number: int, length: int) -> str:
        self.points.here(f"inside {ctx.step}, turn {ctx.turn}: call {number} has begun")
        result = f"{name} {number} {uuid.uuid4().hex}".ljust(length, ".")
        self.ledger.write("called", ctx.step, ctx.turn, short(result))
        self.points.here(f"inside {ctx.step}, turn {ctx.turn}: call {number} has happened")
        return result

    def receive(self, ctx: StepContext) -> None:
        """Note what the step was woken by."""
        self.ledger.write("received", ctx.step, ctx.turn, ctx.received.payload if ctx.received else "")

    def ask(self, ctx: StepContext) -> bool:
        """Return whether the effect of this turn has happened."""
        self.points.here(f"inside the reconcile of {ctx.step}, turn {ctx.turn}: it has begun")
        acts = [line for line in self.ledger.lines("effect") if (line.step, line.turn) == (ctx.step, ctx.turn)]
        self.ledger.write("asked", ctx.step, ctx.turn, "done" if acts else "not done")
        self.points.here(f"inside the reconcile of {ctx.step}, turn {ctx.turn}: it has its answer")
        return bool(acts)
