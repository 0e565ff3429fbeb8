"""The README begins with the commands that a newcomer and the continuous integration run."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = [
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[demo]' && .venv/bin/python manage.py demo",
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/pytest",
]


def test_commands_come_first() -> None:
    before, block, _ = (ROOT / "README.md").read_text(encoding="utf-8").split("```", 2)
    assert block.splitlines()[1:] == COMMANDS
    assert len(before.splitlines()) < 10


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_stand_on_lines_of_their_own(command: str) -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").splitlines().count(command) == 1
