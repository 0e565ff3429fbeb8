"""The work of the demo, by itself: find a text, cut it into sections, count words."""

import argparse
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

FEWEST, MOST = 6, 12
"""How many sections a text is cut into: enough to be interrupted among them, and few enough for a minute."""

_WORD = re.compile(r"[^\W\d_]{2,}")
_UNDERLINE = re.compile(r"(=|-|~){4,}")
_HEADING = re.compile(r"#{1,6} \S|(async def|def|class) \w")  # of Markdown, and of Python


@dataclass(frozen=True)
class Section:
    """Name the lines from ``start`` until ``stop``, which is not included."""

    title: str
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Finding:
    """Hold what was found in one section; sections are numbered from 1."""

    number: int
    title: str
    lines: int
    words: int
    frequent: tuple[str, ...]


def find_text() -> Path:
    """Return a text that is on every machine: Python's own licence, else the source of one of its modules."""
    library = Path(os.__file__).resolve().parent
    candidates = [folder / name for folder in (library, library.parent) for name in ("LICENSE.txt", "LICENSE")]
    return next((path for path in candidates if path.is_file()), Path(argparse.__file__))


def words_of(lines: Iterable[str]) -> list[str]:
    return [word for line in lines for word in _WORD.findall(line.lower())]


def look_into(section: Section, number: int, lines: Sequence[str]) -> Finding:
    """Count the words of a section, and name its most frequent long ones."""
    words = words_of(lines)
    long = Counter(word for word in words if len(word) > 6)
    frequent = tuple(word for word, _ in long.most_common(3))
    return Finding(number, section.title, section.length, len(words), frequent)


def find_sections(lines: Sequence[str]) -> tuple[Section, ...]:
    """Cut a text at its headings. Every line is in exactly one section."""
    starts = [0, *(index for index in range(1, len(lines)) if _is_heading(lines, index))]
    sections = [_section(lines, start, stop) for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True)]
    while len(sections) > MOST:
        _merge(sections)
    while len(sections) < FEWEST and max(section.length for section in sections) > 1:
        _split(sections, lines)
    return tuple(sections)


def _is_heading(lines: Sequence[str], index: int) -> bool:
    line, following = lines[index].strip(), lines[index + 1].strip() if index + 1 < len(lines) else ""
    underlined = bool(line) and _UNDERLINE.fullmatch(following) and not _UNDERLINE.fullmatch(line)
    return bool(underlined or _HEADING.match(lines[index]))


def _section(lines: Sequence[str], start: int, stop: int) -> Section:
    first = next((line for line in lines[start:stop] if line.strip(" #=-~\t\r")), "")
    shown = "".join(character if character.isprintable() else " " for character in first)  # on somebody's terminal
    title = shown.strip(" #:") or "(blank)"
    return Section(title if len(title) <= 60 else f"{title[:57]}...", start, stop)


def _merge(sections: list[Section]) -> None:
    """Join the two neighbours that are shortest together."""
    at = min(range(len(sections) - 1), key=lambda index: sections[index].length + sections[index + 1].length)
    first, second = sections[at : at + 2]
    sections[at : at + 2] = [Section(first.title, first.start, second.stop)]


def _split(sections: list[Section], lines: Sequence[str]) -> None:
    """Halve the longest section, at a blank line near its middle if there is one."""
    at = max(range(len(sections)), key=lambda index: sections[index].length)
    whole = sections[at]
    middle = (whole.start + whole.stop) // 2
    near = range(whole.start + whole.length // 4 + 1, whole.stop - whole.length // 4)
    blank = min(
        (index for index in near if not lines[index].strip()), key=lambda index: abs(index - middle), default=middle
    )
    second = _section(lines, blank, whole.stop)
    sections[at : at + 1] = [Section(whole.title, whole.start, blank), second]
