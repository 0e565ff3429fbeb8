"""The conformance kit itself: how it is used, and what it says where it is used wrongly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from django_statestore import Store
from django_statestore.backends.base import BaseBackend
from django_statestore.backends.memory import MemoryBackend
from django_statestore.testing import conformance

ROOT = Path(__file__).resolve().parents[2]
README = Path(conformance.__file__).with_name("README.md").read_text()


class Mine:
    shared = MemoryBackend().store()

    def make(self) -> Store:
        return self.shared


def test_there_is_a_test_class_for_each_family() -> None:
    made = conformance.tests(Mine)
    assert len(made) == len(conformance.FAMILIES) == len(set(conformance.FAMILIES))
    assert {"TestKV", "TestDifference", "TestRace"} <= set(made)
    for name, case in made.items():
        assert case.__name__ == name
        assert case.__module__ == __name__
        assert issubclass(case, Mine)


def test_families_can_be_chosen() -> None:
    assert list(conformance.tests(Mine, conformance.KVConformance)) == ["TestKV"]


def test_every_family_is_exported_and_listed_in_the_readme() -> None:
    exported = {getattr(conformance, name) for name in conformance.__all__ if name.endswith("Conformance")}
    assert exported == {*conformance.FAMILIES, conformance.Conformance}
    table = README.partition("| family | rules |")[2].partition("\n\n")[0]
    listed = re.findall(
        r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    )
    assert sorted(listed) == sorted(family.__name__.removesuffix("Conformance") for family in conformance.FAMILIES)


def test_the_readme_lists_every_hook_and_every_declaration() -> None:
    hooks = {name for name in vars(conformance.Conformance) if not name.startswith("_")} - {"store", "call"}
    declared = {name for name, value in vars(BaseBackend).items() if isinstance(value, bool)}
    for name in hooks | declared:
        assert f"`{name}" in README, name


def test_a_case_runs_as_the_readme_says(tmp_path: Path) -> None:
    snippet = README.partition("```python\n")[2].partition("```")[0]
    settings = "from django.conf import settings\nsettings.configure()\n"
    snippet = snippet.replace(
        "my_project.state import MyBackend", "django_statestore.backends.memory import MemoryBackend"
    )
    (tmp_path / "test_my_backend.py").write_text(settings + snippet.replace("MyBackend()", "MemoryBackend()"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-pno:cacheprovider",
        "-k",
        "TestOnce or TestHandoff",
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_helpers_for_tests_do_not_need_pytest() -> None:
    program = "import sys; sys.modules['pytest'] = None; import django_statestore.testing"
    subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=ROOT, check=True)


def test_make_is_asked_for_by_name() -> None:
    with pytest.raises(NotImplementedError, match=r"Conformance must define make\(self\)"):
        conformance.Conformance().make()


def test_one_and_the_same_backend_is_no_second_one() -> None:
    class Case(Mine, conformance.Conformance):
        pass

    with pytest.raises(pytest.fail.Exception, match=r"override again\(\)"):
        Case().again(Mine.shared)
    other = SimpleNamespace(backend=object(), names=("a",))
    assert Case().again(other).names == ("a",)  # type: ignore[arg-type]
