"""A process that forks: the child has a copy that is whole, and whose lock is free."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_forks_in_the_middle_of_operations_find_a_whole_copy_and_a_free_lock() -> None:
    command = [sys.executable, "-m", "tests.memory.forking"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
