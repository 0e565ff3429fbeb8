"""Let pytest explain the assertions of the kit as it does those of a test file; imported before the other modules."""

from pathlib import Path

import pytest

pytest.register_assert_rewrite(
    *(f"{__package__}.{file.stem}" for file in Path(__file__).parent.glob("[!_]*.py") if file.stem != "rewriting")
)
