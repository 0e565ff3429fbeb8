"""Pages as the tests read them: their fenced blocks, their headings and their links."""

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)$")
_FILE = re.compile(r"^# (shop/\w+\.py)(, continued)?$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$")


@dataclass(frozen=True)
class Block:
    """Hold one fenced block; ``line`` is that of its fence, from 1."""

    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """Return the file that the block belongs into, by its first line, or None: it is typed into a shell."""
        found = _FILE.match(self.text.partition("\n")[0]) if self.language == "python" else None
        return found[1] if found else None

    @property
    def continues(self) -> bool:
        """Return whether the block goes to the end of its file, instead of being all of it."""
        found = _FILE.match(self.text.partition("\n")[0])
        return found is not None and found[2] is not None


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            body = []
            for _, inner in lines:
                if inner == "```":
                    break
                body.append(inner)
            else:
                raise AssertionError(f"{page.name}:{number}: the block has no end")
            found.append(Block(fence[1], "\n".join(body) + "\n", number))
    return found


def prose(page: Path) -> str:
    """Return a page without its fenced blocks and its inline code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def links(page: Path) -> list[str]:
    """Return the targets of a page's links."""
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """Return what a link to a heading of the page may name, as GitHub makes it of the heading's words."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = [found[1] for line in text.splitlines() if (found := _HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    _, found, after = page.read_text(encoding="utf-8").partition(f"\n{heading}\n")
    assert found, f"{page.name} has no heading {heading!r}"
    rows = [line for line in after.split("\n#", 1)[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def code(cell: str) -> list[str]:
    """Return what stands in a cell as code."""
    return re.findall(r"`([^`]+)`", cell)
