"""Do what a page says, from its top to its end: `python -m tests.docs.reader PAGE`, inside the reader's project.

A Python block that begins with the name of a file, such as `# shop/models.py`, is written to that file; any other is
typed into a shell, which is left and entered again after a change of a file. Commands of `manage.py` are run. What is
shown below either must be what was printed. Exit status 1: something was not so, and the error output says where.
"""

import contextlib
import importlib
import io
import subprocess
import sys
import traceback
import types
from pathlib import Path

import django
from django.apps import apps
from django.conf import settings

from tests.docs.markdown import Block, blocks

ELSEWHERE = ("pip install ", "celery ", "python3 -m venv ")
"""How commands begin that are shown and not run."""


class Reader:
    """Read one page; the current folder is the project's."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._shell: types.ModuleType | None = None

    def read(self) -> None:
        """Do each block in turn."""
        every = blocks(self._page)
        for block, after in zip(every, [*every, None][1:], strict=True):
            shown = after.text if after is not None and after.language == "text" else None
            try:
                printed = self._do(block)
            except Exception:
                raise SystemExit(f"{self._where(block)} raised\n{traceback.format_exc()}") from None
            if block.language in ("python", "sh") and shown is not None and printed.strip() != shown.strip():
                raise SystemExit(f"{self._where(block)} shows\n{shown.strip()}\nand printed\n{printed.strip()}")

    def _where(self, block: Block) -> str:
        return f"{self._page.name}:{block.line}: the {block.language or 'unnamed'} block"

    def _do(self, block: Block) -> str:
        if block.language == "sh":
            return "".join(self._run(command, status) for command, status in commands(block))
        if block.language != "python":
            return ""
        if block.file is None:
            return self._type(block)
        self._write(Path(block.file), block)
        return ""

    def _write(self, path: Path, block: Block) -> None:
        before = path.read_text(encoding="utf-8") if block.continues else ""
        path.write_text(f"{before}\n\n{block.text}" if before else block.text, encoding="utf-8")
        self._shell = None

    def _type(self, block: Block) -> str:
        self._shell = self._shell or enter_shell()
        # Empty lines before it: a traceback names the line of the page.
        code = compile("\n" * block.line + block.text, str(self._page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, self._shell.__dict__)
        return printed.getvalue()

    def _run(self, command: str, status: int) -> str:
        if command.startswith(ELSEWHERE):
            return ""
        if not command.startswith("python manage.py "):
            raise AssertionError(f"who runs this command? {command}")
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
        if done.returncode != status:
            raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


def enter_shell() -> types.ModuleType:
    """Return the namespace of a new shell, with the app's modules as their files are now; only models stay."""
    for name in [name for name in sys.modules if name.startswith("shop.") and not name.startswith("shop.models")]:
        del sys.modules[name]
    if apps.ready:
        importlib.import_module("shop.durable_tasks")
    else:
        django.setup()
    shell = sys.modules["shell"] = types.ModuleType("shell")  # dataclasses look for their types there
    return shell


def commands(block: Block) -> list[tuple[str, int]]:
    """Return the commands of a block, each with the exit status that a comment below it tells, else 0."""
    found: list[tuple[str, int]] = []
    for line in block.text.splitlines():
        if line.startswith("# exit status "):
            found[-1] = found[-1][0], int(line.removeprefix("# exit status "))
        elif line.strip():
            found.append((line, 0))
    return found


if __name__ == "__main__":
    assert "shop" in settings.INSTALLED_APPS
    Reader(Path(sys.argv[1])).read()
