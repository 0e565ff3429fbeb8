"""The conformance kit tells each broken backend, by the cases that name the rule it breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from django_statestore.backends.memory import MemoryBackend

from .expected import BROKEN, LUCK, SOUND

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, bool]]]:
    """Run the kit on all toys in one process; return the cases of each class, and whether they were red."""
    folder = tmp_path_factory.mktemp("toys")
    settings, report = folder / "pytest.ini", folder / "report.xml"
    settings.write_text("[pytest]\nfilterwarnings = error\n")
    options = [f"-c{settings}", f"--rootdir={ROOT}", "--noconftest", "-pno:cacheprovider", "-q", "--tb=short"]
    command = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", "tests/conformance/toybox.py"]
    environment = {
        name: value for name, value in os.environ.items() if name not in {"DJANGO_SETTINGS_MODULE", "PYTEST_ADDOPTS"}
    }
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    cases: dict[str, list[tuple[str, bool]]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        red = case.find("failure") is not None or case.find("error") is not None
        name = case.attrib["name"].partition("[")[0]
        cases.setdefault(case.attrib["classname"].rpartition(".")[2], []).append((name, red))
    return cases


PAIRS = [(backend, family) for backend, families in [*SOUND.items(), *BROKEN.items()] for family in families]


@pytest.mark.parametrize(("backend", "family"), PAIRS, ids=[f"{each.__name__}-{family}" for each, family in PAIRS])
def test_what_is_broken_is_red_and_nothing_else(
    outcome: dict[str, list[tuple[str, bool]]], backend: type[MemoryBackend], family: str
) -> None:
    cases = outcome[f"Test{family}On{backend.__name__}"]
    red = {name for name, failed in cases if failed}
    assert red - LUCK.get(backend, set()) == BROKEN.get(backend, {}).get(family, set())
    assert len(cases) > len(red)


def test_every_toy_is_told() -> None:
    assert [backend.__name__ for backend, families in BROKEN.items() if not all(families.values())] == []
