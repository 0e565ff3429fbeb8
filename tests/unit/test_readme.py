"""The README's Python does what it says."""

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.django_db(transaction=True)
def test_python_blocks_run_in_order() -> None:
    text = README.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "readme"}
    blocks = list(FENCE.finditer(text))
    assert blocks
    for block in blocks:
        # Empty lines in front make a traceback name the line of the README.
        source = "\n" * text.count("\n", 0, block.start(1)) + block.group(1)
        exec(compile(source, str(README), "exec"), namespace)
