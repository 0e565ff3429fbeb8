"""Queries over a spooled body as text, as a tool of an agent asks them: head, tail, cat, grep."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..exceptions import InvalidArgument, InvalidArgumentType
from ..flow import Flow, both
from .reader import SpoolReader, text, whole_number


class Searcher(Protocol):
    """Be a compiled pattern: of ``re``, of ``re2``, or anything else that can search a line."""

    def search(self, string: str, /) -> object:
        """Return something true where ``string`` matches."""


@dataclass(frozen=True, slots=True)
class SpooledArtifact:
    """Answer questions about the text of a reader. Bounds are clamped, so no number a model may send is an error.

    Besides the lines of the answer it holds some 1 MB in memory, and the longest line that it looks at; ``as_string``
    holds everything.
    """

    reader: SpoolReader

    @property
    def byte_length(self) -> int:
        return self.reader.byte_length

    @property
    def line_count(self) -> int:
        return self.reader.line_count

    def _head(self, n: int = 10) -> Flow[list[str]]:
        """Return the first ``n`` lines; none for zero and below."""
        return (yield from self.reader._lines(0, max(0, whole_number(n, "n"))))

    def _tail(self, n: int = 10) -> Flow[list[str]]:
        """Return the last ``n`` lines, in their order; none for zero and below."""
        return (yield from self.reader._lines(self.line_count - min(self.line_count, max(0, whole_number(n, "n")))))

    def _cat(self, start: int = 0, stop: int | None = None) -> Flow[list[str]]:
        """Return the lines from ``start`` until ``stop``, which is not included; None: to the end.

        A negative ``start`` is 0; a negative ``stop`` gives no line (it does not count from the end).
        """
        start = max(0, whole_number(start, "start"))
        return (yield from self.reader._lines(start, None if stop is None else max(0, whole_number(stop, "stop"))))

    def _grep(
        self, pattern: str | Searcher, max_matches: int | None = None, *, ignore_case: bool = False
    ) -> Flow[list[str]]:
        """Return the whole lines in which ``pattern`` occurs, in order, the first ``max_matches`` of them.

        A ``str`` is plain text, never a regular expression, so the pattern of a stranger or of a model cannot hang a
        worker: the time is linear. ``ignore_case`` compares by case folding.

        A compiled pattern is searched in each line by itself. One of ``re`` can take exponential time: give only those
        that your own code wrote. For patterns from elsewhere, anything with ``search(text)`` will do, such as what
        ``re2.compile`` of google-re2 returns, which is linear too.
        """
        matches = _matcher(pattern, ignore_case)
        if max_matches is not None and whole_number(max_matches, "max_matches") < 0:
            raise InvalidArgument("max_matches cannot be negative; None means all")
        found: list[str] = []
        begun: list[bytes] = []
        first, number, count = True, 0, self.reader._blob.shape.chunk_count
        while number < count and (max_matches is None or len(found) < max_matches):
            pieces = yield from self.reader.pieces_flow(number)
            number += len(pieces)
            ended, line_end, rest = b"".join(pieces).rpartition(b"\n")
            if number == count:
                begun += (ended, line_end, rest)
            elif line_end:
                begun.append(ended)
            else:
                begun.append(rest)
                continue
            found += filter(matches, text(b"".join(begun), first=first).split("\n"))
            first, begun = False, [rest]
        return found[:max_matches]

    def _as_string(self) -> Flow[str]:
        """Return the whole text, its line ends as they are. It holds all of it in memory."""
        return (yield from self.reader._read_all())

    head, ahead = both(_head)
    tail, atail = both(_tail)
    cat, acat = both(_cat)
    grep, agrep = both(_grep)
    as_string, aas_string = both(_as_string)


def _matcher(pattern: str | Searcher, ignore_case: bool) -> Callable[[str], object]:
    if isinstance(pattern, str):
        if ignore_case:
            folded = pattern.casefold()
            return lambda line: folded in line.casefold()
        return lambda line: pattern in line
    if ignore_case:
        raise InvalidArgument("ignore_case goes with plain text; a compiled pattern has a flag of its own")
    if isinstance(pattern, re.Pattern) and not isinstance(pattern.pattern, str):
        raise InvalidArgumentType("pattern is compiled from bytes, but lines are text")
    if not callable(getattr(pattern, "search", None)):
        raise InvalidArgumentType(f"pattern is a {type(pattern).__name__}: give text, or a compiled pattern")
    return pattern.search
