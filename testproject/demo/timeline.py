"""What the demo prints: a line for everything that happens, and on a terminal one that moves."""

import shutil
import time
from collections.abc import Iterable

from django.core.management.base import OutputWrapper
from django.core.management.color import Style

_WIDTH = 10


class Timeline:
    """Print. Times are in seconds since ``restart()``."""

    def __init__(self, out: OutputWrapper, style: Style) -> None:
        self._out, self._style = out, style
        self._terminal = out.isatty()
        self._moving = False
        self._full, self._empty = _glyphs(getattr(out, "encoding", None))
        self.restart()

    def restart(self) -> None:
        """Begin to count the time."""
        self._started = time.monotonic()

    @property
    def now(self) -> float:
        return time.monotonic() - self._started

    # -- lines --------------------------------------------------------------------------------------------------------

    def say(self, text: str = "") -> None:
        self._clear()
        self._out.write(text)
        self._out.flush()

    def head(self, text: str) -> None:
        self.say(self._style.MIGRATE_HEADING(text))

    def columns(self) -> None:
        self.head("   time  worker   step          turn attempt outcome    progress")

    def step(
        self, at: float, worker: str, step: str, turn: int, attempt: int, outcome: str, progress: float | None
    ) -> None:
        """Print one saved step."""
        self.say(self._line(at, worker, step, turn, attempt, outcome, progress))

    def moving(self, worker: str, step: str, turn: int, attempt: int, progress: float | None, text: str) -> None:
        """Show a step that runs, in a line that the next one replaces; only on a terminal."""
        if not self._terminal:
            return
        line = f"{self._line(self.now, worker, step, turn, attempt, 'running', progress)} {text}"
        self._clear()
        self._out.write(line[: shutil.get_terminal_size().columns - 1], ending="")
        self._out.flush()
        self._moving = True

    def event(self, text: str, *, bad: bool = False) -> None:
        """Print what happened, and why."""
        style = self._style.ERROR if bad else self._style.WARNING
        self.say(style(f" {self.now:6.1f}  {'x' if bad else '>'} {text}"))

    def verdict(self, claims: Iterable[tuple[str, bool]]) -> None:
        for text, holds in claims:
            mark = self._style.SUCCESS("ok    ") if holds else self._style.ERROR("FAILED")
            self.say(f"  {mark}  {text}")

    # -- their parts --------------------------------------------------------------------------------------------------

    def _line(
        self, at: float, worker: str, step: str, turn: int, attempt: int, outcome: str, progress: float | None
    ) -> str:
        return f" {at:6.1f}  {worker:7}  {step:13} {turn:4} {attempt:7} {outcome:10} {self._bar(progress)}"

    def _bar(self, progress: float | None) -> str:
        done = round((progress or 0) * _WIDTH)
        return f"{self._full * done}{self._empty * (_WIDTH - done)} {progress or 0:4.0%}"

    def _clear(self) -> None:
        if self._moving:
            self._out.write("\r\x1b[K", ending="")
            self._moving = False


def _glyphs(encoding: str | None) -> tuple[str, str]:
    try:
        "█░".encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return "#", "."
    return "█", "░"
