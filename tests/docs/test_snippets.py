"""Every page holds what it says: its files, what is typed into the shell, its commands, and what is printed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a project with an empty app, `shop`, and a database that does not exist yet."""
    shutil.copy(ROOT / "manage.py", tmp_path)
    for package in ("shop", "shop/migrations"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    return tmp_path


def environment(project: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STATESTORE_")}
    return kept | {
        "DJANGO_SETTINGS_MODULE": "tests.docs.settings",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONDONTWRITEBYTECODE": "1",  # files change within a second, and an old compiled one would be taken
        "PYTHONPATH": os.pathsep.join([str(project), str(ROOT)]),
        "PYTHONWARNINGS": "error",
        "STATESTORE_SQLITE": str(project / "db.sqlite3"),
        "STATESTORE_TEST_DIR": str(project),
    }


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment(project),
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_holds_what_it_says(page: Path, project: Path) -> None:
    if page == README:  # which says it in a sentence
        assert "run `python manage.py migrate`" in page.read_text(encoding="utf-8")
        run(project, "manage.py", "migrate").check_returncode()
    done = run(project, "-m", "tests.docs.reader", str(page))
    assert done.returncode == 0, done.stderr
